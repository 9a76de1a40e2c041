#include "experiments/estimate.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "favor/random.h"

namespace favor::experiments {
namespace {

constexpr int64_t kDrawsPerTask = 64;

double Product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void Normalize(std::vector<double>& a) {
  const double length = std::sqrt(Product(a, a));
  for (double& value : a) value /= length;
}

}  // namespace

double VectorPair::Dot() const { return Product(x, y); }
double VectorPair::SumSquare() const { return Product(x, x) + 2 * Dot() + Product(y, y); }

VectorPair GenericPair(int64_t dim, double norm, double angle, uint64_t seed) {
  const auto d = static_cast<size_t>(dim);
  std::vector<double> x(d), side(d), y(d);
  RandomStream(seed, "pair").FillNormal(0, x);
  RandomStream(seed, "pair").Child(1).FillNormal(0, side);
  Normalize(x);
  const double along = Product(x, side);
  for (size_t i = 0; i < d; ++i) side[i] -= along * x[i];
  Normalize(side);
  for (size_t i = 0; i < d; ++i) {
    y[i] = norm * (std::cos(angle) * x[i] + std::sin(angle) * side[i]);
    x[i] *= norm;
  }
  return {.x = std::move(x), .y = std::move(y)};
}

std::vector<double> DrawEstimates(const FeatureOptions& options, const VectorPair& pair,
                                  const Draws& draws, const Context& context) {
  const auto dim = static_cast<int64_t>(pair.x.size());
  const ConstView x(pair.x.data(), {1, dim}), y(pair.y.data(), {1, dim});
  const Context serial({.threads = 1});
  std::vector<double> estimates(static_cast<size_t>(draws.count));
  ParallelForBlocks(context, draws.count, kDrawsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t redraw = begin; redraw < end; ++redraw) {
      const auto plan = FeaturePlan::Draw(options, 1, dim, context.seed(),
                                          (draws.figure << 32) + static_cast<uint64_t>(redraw));
      const Tensor phi_x = Features(plan, x, serial),
                   phi_y = Features(plan, y, serial, FeatureRole::kKey);
      double dot = 0;
      for (int64_t r = 0; r < plan.width(); ++r)
        dot += phi_x.Data<double>()[r] * phi_y.Data<double>()[r];
      estimates[static_cast<size_t>(redraw)] = dot;
    }
  });
  return estimates;
}

Estimate Summarize(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  // Relative to a value near the mean: equal values have their mean exactly.
  double shift = 0, second = 0, fourth = 0;
  for (const double value : values) shift += (value - values[0]) / n;
  const double mean = values[0] + shift;
  for (const double value : values) {
    const double square = (value - mean) * (value - mean);
    second += square / n;
    fourth += square * square / n;
  }
  const double variance = second * n / (n - 1);
  return {.mean = {mean, std::sqrt(variance / n), n - 1},
          .variance = {variance, std::sqrt(std::max(0.0, fourth - second * second) / n), n - 1}};
}

Measured ShareAbove(std::span<const double> values, double bound) {
  const auto n = static_cast<double>(values.size());
  const auto hits = static_cast<double>(
      std::ranges::count_if(values, [&](double value) { return value > bound; }));
  const double shifted = std::clamp(hits, 1.0, std::max(1.0, n - 1)) / n;
  return {.value = hits / n, .standard_error = std::sqrt(shifted * (1 - shifted) / n)};
}

double ErrorOfVariance(double sum_square, int64_t features, int64_t draws) {
  // The excess of the law, and of a mean of m such terms.
  constexpr double kOfASquare = 12;
  const double lognormal =
      std::exp(4 * sum_square) + 2 * std::exp(3 * sum_square) + 3 * std::exp(2 * sum_square) - 6;
  const double excess = std::max(kOfASquare, lognormal);
  return std::sqrt((excess / static_cast<double>(features) + 2) / static_cast<double>(draws));
}

FeatureOptions OptionsFor(std::string_view map, std::string_view projection, int64_t features,
                          const VectorPair& pair) {
  FeatureOptions options{
      .map = std::string(map), .projection = std::string(projection), .features = features};
  if (FindMap(map).takes_a)
    options.oprf_a = {OptimalOprfA(pair.SumSquare(), static_cast<int64_t>(pair.x.size()))};
  return options;
}

}  // namespace favor::experiments
