// Projection of 256 rows on m features over d. Dense rows cost O(m d), structured ones O(m log d):
// their column per_log_d (seconds per row, per feature and per factor of two in d) stays level
// while dense rows grow like d.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "features/projection.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr int64_t kRows = 256;

void Project(benchmark::State& state, const char* projection) {
  const int64_t d = state.range(0), m = state.range(1);
  const kernels::Omega omega = features::FindProjection(projection)
                                   .draw({.features = m,
                                          .dim = d,
                                          .norm = OmegaNorm::kChi,
                                          .stream = RandomStream(1, "bench")});
  const kernels::cpu::PackedOmega packed(omega);
  const Context context({.threads = 1});
  std::vector<float> x(static_cast<size_t>(kRows * d), 0.5f), u(static_cast<size_t>(kRows * m));
  for (auto _ : state) {
    kernels::cpu::Project(packed, x.data(), kRows, context, u.data());
    benchmark::DoNotOptimize(u.data());
  }
  const auto work = static_cast<double>(kRows * m);
  using benchmark::Counter;
  const auto seconds_per = Counter::kIsIterationInvariantRate | Counter::kInvert;
  state.counters["per_feature"] = Counter(work, seconds_per);
  state.counters["per_log_d"] = Counter(work * std::log2(static_cast<double>(d)), seconds_per);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"d", "m"})->Args({128, 512});
  for (int64_t d = 16; d <= 1024; d *= 2) bench->Args({d, 1024});
}

BENCHMARK_CAPTURE(Project, gaussian, "gaussian")->Apply(Sizes);
BENCHMARK_CAPTURE(Project, hadamard, "hadamard")->Apply(Sizes);
BENCHMARK_CAPTURE(Project, givens, "givens")->Apply(Sizes);

}  // namespace
}  // namespace favor
