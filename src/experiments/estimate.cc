#include "experiments/estimate.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDrawsPerTask = 64;

// Sums over draws of deviations from a value near the mean, so that nothing cancels.
struct Sums {
  double first = 0, second = 0;
};

}  // namespace

Estimate MeasureEstimator(const FeatureOptions& options, const std::vector<double>& x,
                          const std::vector<double>& y, int64_t draws, const Context& context) {
  const auto dim = static_cast<int64_t>(x.size());
  Tensor pair({2, dim}, DataType::kF64);
  std::copy(x.begin(), x.end(), pair.Data<double>());
  std::copy(y.begin(), y.end(), pair.Data<double>() + dim);
  const Context serial({.threads = 1});
  const auto draw = [&](int64_t redraw) {
    const auto plan =
        FeaturePlan::Draw(options, 1, dim, context.seed(), static_cast<uint64_t>(redraw));
    const Tensor phi = Features(plan, pair, serial);
    const double* values = phi.Data<double>();
    double dot = 0;
    for (int64_t r = 0; r < plan.width(); ++r) dot += values[r] * values[plan.width() + r];
    return dot;
  };
  const double center = draw(0);
  const Sums sums = ParallelReduce(
      context, draws, kDrawsPerTask, Sums{},
      [&](int64_t begin, int64_t end) {
        Sums part;
        for (int64_t redraw = begin; redraw < end; ++redraw) {
          const double deviation = draw(redraw) - center;
          part.first += deviation;
          part.second += deviation * deviation;
        }
        return part;
      },
      [](Sums& total, const Sums& part) {
        total.first += part.first;
        total.second += part.second;
      });
  const auto n = static_cast<double>(draws);
  const double variance = (sums.second - sums.first * sums.first / n) / (n - 1);
  return {.mean = center + sums.first / n,
          .standard_error = std::sqrt(variance / n),
          .variance = variance};
}

std::pair<std::vector<double>, std::vector<double>> GenericPair(int64_t dim, double norm,
                                                                double angle, uint64_t seed) {
  const auto d = static_cast<size_t>(dim);
  std::vector<double> x(d), side(d), y(d);
  RandomStream(seed, "pair").FillNormal(0, x);
  RandomStream(seed, "pair").Child(1).FillNormal(0, side);
  const auto dot = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < d; ++i) sum += a[i] * b[i];
    return sum;
  };
  const auto normalize = [&](std::vector<double>& a) {
    const double length = std::sqrt(dot(a, a));
    for (double& value : a) value /= length;
  };
  normalize(x);
  const double along = dot(x, side);
  for (size_t i = 0; i < d; ++i) side[i] -= along * x[i];
  normalize(side);
  for (size_t i = 0; i < d; ++i) {
    y[i] = norm * (std::cos(angle) * x[i] + std::sin(angle) * side[i]);
    x[i] *= norm;
  }
  return {x, y};
}

}  // namespace favor::experiments
