// The optimal A of oprf, from O(L) statistics: mean_ij ‖q_i + k_j‖² = mean‖q‖² + mean‖k‖² + 2 q̄·k̄.
#include <cmath>
#include <vector>

#include "core/error_text.h"
#include "core/parallel.h"
#include "favor/features.h"
#include "kernels/key_statistics.h"

namespace favor {
namespace {

constexpr int64_t kBlockRows = 1024;

struct Statistics {
  double square = 0;         // Σ ‖x‖²
  std::vector<double> mean;  // Σ x, later divided
};

// Sums over the rows of one head in one batch entry.
Statistics HeadStatistics(ConstView rows, const Context& context) {
  const int64_t length = rows.size(0), d = rows.size(1);
  Tensor copy(rows.shape(), DataType::kF64);
  Copy(rows, copy.view());
  const double* x = copy.Data<double>();
  return ParallelReduce(
      context, length, kBlockRows, Statistics{0, std::vector<double>(static_cast<size_t>(d), 0.0)},
      [&](int64_t begin, int64_t end) {
        Statistics part{0, std::vector<double>(static_cast<size_t>(d), 0.0)};
        for (int64_t i = begin * d; i < end * d; ++i) {
          part.square += x[i] * x[i];
          part.mean[static_cast<size_t>(i % d)] += x[i];
        }
        return part;
      },
      [](Statistics& sum, const Statistics& part) {
        sum.square += part.square;
        for (size_t i = 0; i < sum.mean.size(); ++i) sum.mean[i] += part.mean[i];
      });
}

// Means over batches and rows of one head.
Statistics MeanStatistics(const ConstView& x, int64_t head, const Context& context) {
  Statistics sum{0, std::vector<double>(static_cast<size_t>(x.size(3)), 0.0)};
  for (int64_t batch = 0; batch < x.size(0); ++batch) {
    const Statistics part = HeadStatistics(x.At(batch).At(head), context);
    sum.square += part.square;
    for (size_t i = 0; i < sum.mean.size(); ++i) sum.mean[i] += part.mean[i];
  }
  const auto count = static_cast<double>(x.size(0) * x.size(2));
  sum.square /= count;
  for (double& value : sum.mean) value /= count;
  return sum;
}

}  // namespace

double OptimalOprfA(double mean_square_of_sum, int64_t dim) {
  return kernels::OptimalOprfA(mean_square_of_sum, dim);
}

std::vector<double> OptimalOprfA(ConstView queries, ConstView keys, const Context& context) {
  const ConstView q = queries.AsRank4(), k = keys.AsRank4();
  if (queries.rank() < 2 || keys.rank() < 2 || q.size(1) != k.size(1) || q.size(3) != k.size(3) ||
      q.shape().Elements() == 0 || k.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, "oprf A",
          "given queries {} and keys {}, expected [L, d] to [B, H, L, d] with the same heads and "
          "dim, not empty",
          queries.shape().ToString(), keys.shape().ToString());
  }
  std::vector<double> result;
  for (int64_t head = 0; head < q.size(1); ++head) {
    const Statistics sq = MeanStatistics(q, head, context), sk = MeanStatistics(k, head, context);
    double dot = 0;
    for (size_t i = 0; i < sq.mean.size(); ++i) dot += sq.mean[i] * sk.mean[i];
    result.push_back(OptimalOprfA(sq.square + sk.square + 2 * dot, q.size(3)));
  }
  return result;
}

}  // namespace favor
