// What random features of polynomial kernels cost: rows of 64 elements, one thread. The counter
// `ns_per_step` is the time of a row over k(d + m log₂ m), and does not grow with m if that is what
// a sketch costs.
//   favor_bench --benchmark_filter=Polynomial
#include <benchmark/benchmark.h>

#include <cmath>

#include "benchmarks/random_tensor.h"
#include "favor/features.h"

namespace favor {
namespace {

constexpr int64_t kRows = 512, kDim = 64;

void PolynomialFeatures(benchmark::State& bench, const char* map) {
  const int64_t degree = bench.range(0), columns = bench.range(1);
  const FeaturePlan plan =
      FeaturePlan::Draw({.map = map, .features = columns, .degree = degree}, 1, kDim, 1);
  const Context context({.threads = 1});
  const Tensor x = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "rows");
  Tensor exponents({kRows, plan.width()}), factors({kRows, plan.width()});
  for (auto _ : bench) FeatureExponents(plan, x, context, exponents, factors);
  const auto m = static_cast<double>(columns);
  const double steps = static_cast<double>(degree * kRows) * (kDim + m * std::log2(m));
  bench.counters["ns_per_step"] = benchmark::Counter(
      1e-9 * steps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(PolynomialFeatures, sketch, "poly-sketch")
    ->ArgsProduct({{2, 4}, {64, 256, 1024, 4096, 16384}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(PolynomialFeatures, sum, "poly-sum")
    ->ArgsProduct({{2, 4}, {64, 256, 1024, 4096, 16384}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace favor
