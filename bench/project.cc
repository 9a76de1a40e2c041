// Projection of 256 rows on m = 1024 features over d. Dense rows cost O(m d), structured ones O(m
// log d): their column per_log_d (seconds a row, a feature and a factor of two in d) stays level
// while dense grows like d.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "features/projection.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr int64_t kRows = 256, kFeatures = 1024;

void Project(benchmark::State& state, const char* projection) {
  const int64_t d = state.range(0);
  const kernels::Omega omega = features::FindProjection(projection)
                                   .draw({.features = kFeatures,
                                          .dim = d,
                                          .norm = OmegaNorm::kChi,
                                          .stream = RandomStream(1, "bench")});
  const Context context({.threads = 1});
  std::vector<float> x(static_cast<size_t>(kRows * d), 0.5f),
      u(static_cast<size_t>(kRows * kFeatures));
  for (auto _ : state) {
    kernels::cpu::Project(omega, x.data(), kRows, context, u.data());
    benchmark::DoNotOptimize(u.data());
  }
  const auto work = static_cast<double>(kRows * kFeatures);
  using benchmark::Counter;
  const auto seconds_per = Counter::kIsIterationInvariantRate | Counter::kInvert;
  state.counters["per_feature"] = Counter(work, seconds_per);
  state.counters["per_log_d"] = Counter(work * std::log2(static_cast<double>(d)), seconds_per);
}

BENCHMARK_CAPTURE(Project, gaussian, "gaussian")->RangeMultiplier(2)->Range(16, 1024);
BENCHMARK_CAPTURE(Project, hadamard, "hadamard")->RangeMultiplier(2)->Range(16, 1024);
BENCHMARK_CAPTURE(Project, givens, "givens")->RangeMultiplier(2)->Range(16, 1024);

}  // namespace
}  // namespace favor
