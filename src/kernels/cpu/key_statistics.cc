#include "kernels/key_statistics.h"

#include <cmath>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"

namespace favor::kernels {
namespace cpu {
namespace {

// Sums over the existing rows of (x − mean)·scale: Σ‖x‖² and Σx, in double.
struct RowStatistics {
  RowStatistics(const ConstView& rows, const float* mask, const double* mean, double scale)
      : sum(static_cast<size_t>(rows.size(1)), 0.0) {
    for (int64_t row = 0; row < rows.size(0); ++row) {
      if (mask != nullptr && mask[row] == 0) continue;
      count += 1;
      for (size_t i = 0; i < sum.size(); ++i) {
        const double x =
            (ElementAt(rows, row, static_cast<int64_t>(i)) - (mean == nullptr ? 0 : mean[i])) *
            scale;
        square += x * x;
        sum[i] += x;
      }
    }
  }

  double count = 0, square = 0;
  std::vector<double> sum;
};

// mean_ij ‖x_i + y_j‖² over queries and existing keys.
double MeanSquareOfSum(const RowStatistics& q, const RowStatistics& k) {
  double dot = 0;
  for (size_t i = 0; i < q.sum.size(); ++i) dot += q.sum[i] * k.sum[i];
  return q.square / q.count + k.square / k.count + 2 * dot / (q.count * k.count);
}

}  // namespace

void FindKeyMeans(const KeyMeanArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  ParallelFor(context, problem.Groups(), [&](int64_t group) {
    const RowStatistics keys(problem.OfKeys(problem.k, group), problem.Mask(group), nullptr, 1);
    double* mean = problem.OfQueries(a.mean, group).Data<double>();
    for (size_t i = 0; i < keys.sum.size(); ++i)
      mean[i] = keys.count > 0 ? keys.sum[i] / keys.count : 0;
  });
}

void FindOprfA(const OprfArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  const double sqrt_scale = std::sqrt(problem.scale);
  ParallelFor(context, problem.Groups(), [&](int64_t group) {
    const double* mean =
        a.key_mean.empty() ? nullptr : problem.OfQueries(a.key_mean, group).Data<double>();
    const RowStatistics q(problem.OfQueries(problem.q, group), nullptr, nullptr, sqrt_scale);
    const RowStatistics k(problem.OfKeys(problem.k, group), problem.Mask(group), mean, sqrt_scale);
    if (k.count > 0)
      problem.OfQueries(a.oprf_a, group).Data<double>()[0] =
          OptimalOprfA(MeanSquareOfSum(q, k), problem.dim);
  });
}

}  // namespace cpu

// The positive root t of t² − (1+2φ)t − 2φ = 0, φ = mean ‖x+y‖²/d, A = (1 − t)/8.
double OptimalOprfA(double mean_square_of_sum, int64_t dim) {
  const double phi = mean_square_of_sum / static_cast<double>(dim);
  return (1 - 2 * phi - std::sqrt((2 * phi + 1) * (2 * phi + 1) + 8 * phi)) / 16;
}

}  // namespace favor::kernels
