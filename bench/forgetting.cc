// What forgetting costs: causal linear attention of one head, 4096 rows, d = 64, m = 256, one
// thread, forward and with gradients. Compare within one run:
//   favor_bench --benchmark_filter=Forgetting --benchmark_repetitions=9
//   --benchmark_enable_random_interleaving
#include <benchmark/benchmark.h>

#include "benchmarks/random_tensor.h"
#include "favor/favor.h"

namespace favor {
namespace {

constexpr int64_t kRows = 4096, kDim = 64;

using Decay = double (*)(int64_t row);

struct Setup {
  explicit Setup(Decay decay) : log_decay({kRows}, DataType::kF64) {
    options.plan = FeaturePlan::Draw({.features = 256}, 1, kDim, 1);
    if (decay == nullptr) return;
    for (int64_t row = 0; row < kRows; ++row) log_decay.Data<double>()[row] = decay(row);
    options.log_decay = log_decay;
  }

  const Context context{{.threads = 1}};
  const Tensor q = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "q"),
               k = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "k"),
               v = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "v"),
               grad_out = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "gradient");
  Tensor log_decay;
  AttentionOptions options{.causal = true};
};

void ForgettingForward(benchmark::State& bench, Decay decay) {
  const Setup setup(decay);
  for (auto _ : bench)
    benchmark::DoNotOptimize(Attend(setup.q, setup.k, setup.v, setup.options, setup.context));
}

void ForgettingBackward(benchmark::State& bench, Decay decay) {
  const Setup setup(decay);
  for (auto _ : bench) {
    AttentionTrace trace;
    const Tensor out =
        Attend(setup.q, setup.k, setup.v, setup.options, setup.context, {.trace = &trace});
    benchmark::DoNotOptimize(AttendBackward({setup.q, setup.k, setup.v, out, setup.grad_out},
                                            setup.options, setup.context, &trace));
  }
}

#define FAVOR_BENCH_DECAYS(kernel)                                                                \
  BENCHMARK_CAPTURE(kernel, none, nullptr)->Unit(benchmark::kMillisecond);                        \
  BENCHMARK_CAPTURE(kernel, mild, [](int64_t) { return -0.01; })->Unit(benchmark::kMillisecond);  \
  BENCHMARK_CAPTURE(kernel, strong, [](int64_t) { return -2.0; })->Unit(benchmark::kMillisecond); \
  BENCHMARK_CAPTURE(kernel, jumps, [](int64_t row) {                                              \
    return row % 50 == 49 ? -100.0 : -0.01;                                                       \
  })->Unit(benchmark::kMillisecond)
FAVOR_BENCH_DECAYS(ForgettingForward);
FAVOR_BENCH_DECAYS(ForgettingBackward);
#undef FAVOR_BENCH_DECAYS

}  // namespace
}  // namespace favor
