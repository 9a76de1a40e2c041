// The kernels of linear attention, one thread, one head of 4096 rows, d = 64, m = 256. GFLOP/s
// count the products that the formulas need: 2·m·d per product and row.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/random_tensor.h"
#include "features/drawn_features.h"
#include "kernels/cpu/simd/linear_rows.h"

namespace favor {
namespace {

constexpr int64_t kRows = 4096, kDim = 64, kFeatures = 256;
constexpr kernels::RowRange kAll{0, kRows};

void Keep(const kernels::RowCounts& counts) { benchmark::DoNotOptimize(counts); }

struct Setup {
  explicit Setup(const std::string& map)
      : plan(FeaturePlan::Draw({.map = map, .features = kFeatures}, 1, kDim, 1)),
        states(2, plan.width(), kDim) {
    Keep(kernels::cpu::AppendKeys(head, kAll, state()));
    Keep(
        kernels::cpu::ReadQueries(head, kAll, state(), {.output = out, .log_sum = log_sum.data()}));
    Keep(kernels::cpu::AppendQueries(head, gradients, kAll, adjoint()));
  }

  kernels::StateTensors EmptyState() const { return {1, plan.width(), kDim}; }
  kernels::PrefixState state() const { return states.views().At(0); }  // the state of all keys
  kernels::PrefixState adjoint() const {
    return states.views().At(1);
  }  // the adjoint of all queries

  const Context context{{.threads = 1}};
  const FeaturePlan plan;
  const Tensor q = benchmarks::RandomNormal({kRows, kDim}, 0.5, 1, "q"),
               k = benchmarks::RandomNormal({kRows, kDim}, 0.5, 1, "k"),
               v = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "v"),
               grad_out = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "gradient");
  Tensor out{{kRows, kDim}}, grad_q{{kRows, kDim}}, grad_k{{kRows, kDim}}, grad_v{{kRows, kDim}};
  std::vector<double> log_sum = std::vector<double>(kRows), delta = std::vector<double>(kRows);
  const kernels::LinearHead head{.features = features::ConstantsOf(plan).Head(0),
                                 .context = context,
                                 .queries = {.queries = q, .sqrt_scale = 0.3535},
                                 .keys = {.keys = k, .values = v, .sqrt_scale = 0.3535}};
  const kernels::HeadGradients gradients{.grad_output = grad_out,
                                         .log_sum = log_sum.data(),
                                         .delta = delta.data(),
                                         .grad_queries = grad_q,
                                         .grad_keys = grad_k,
                                         .grad_values = grad_v};
  kernels::StateTensors states;
};

void Measure(benchmark::State& bench, const char* map, int products,
             const std::function<kernels::RowCounts(Setup&)>& work) {
  Setup setup(map);
  for (auto _ : bench) Keep(work(setup));
  const double flops = 2.0 * kRows * kFeatures * kDim * products;
  bench.counters["GFLOP/s"] =
      benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void Append(benchmark::State& bench, const char* map) {
  Measure(bench, map, 2, [](Setup& s) {
    const kernels::StateTensors state = s.EmptyState();
    return kernels::cpu::AppendKeys(s.head, kAll, state.views().At(0));
  });
}
void Read(benchmark::State& bench, const char* map) {
  Measure(bench, map, 2, [](Setup& s) {
    return kernels::cpu::ReadQueries(s.head, kAll, s.state(), {.output = s.out});
  });
}
void Causal(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    const kernels::StateTensors state = s.EmptyState();
    return kernels::cpu::Causal(s.head, kAll, state.views().At(0), {.output = s.out});
  });
}
void QueryGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    const kernels::StateTensors memory = s.EmptyState();
    const kernels::PrefixState adjoint = memory.views().At(0), state = s.state();
    for (size_t r = 0; r < adjoint.c.size(); ++r) adjoint.c[r] = -state.c[r];
    return kernels::cpu::QueryGradients(s.head, s.gradients, kAll, state, adjoint);
  });
}
void KeyGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    return kernels::cpu::KeyGradients(s.head, s.gradients, kAll, s.adjoint());
  });
}
void CausalQueryGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 5, [](Setup& s) {
    const kernels::StateTensors state = s.EmptyState();
    return kernels::cpu::CausalQueryGradients(s.head, s.gradients, kAll, state.views().At(0),
                                              nullptr);
  });
}
void CausalKeyGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 6, [](Setup& s) {
    const kernels::StateTensors adjoint = s.EmptyState();
    return kernels::cpu::CausalKeyGradients(s.head, s.gradients, kAll, adjoint.views().At(0),
                                            nullptr);
  });
}

#define FAVOR_BENCH_MAPS(kernel)                   \
  BENCHMARK_CAPTURE(kernel, positive, "positive"); \
  BENCHMARK_CAPTURE(kernel, relu, "relu");         \
  BENCHMARK_CAPTURE(kernel, trigonometric, "trigonometric")
FAVOR_BENCH_MAPS(Append);
FAVOR_BENCH_MAPS(Read);
FAVOR_BENCH_MAPS(Causal);
FAVOR_BENCH_MAPS(QueryGradients);
FAVOR_BENCH_MAPS(KeyGradients);
FAVOR_BENCH_MAPS(CausalQueryGradients);
FAVOR_BENCH_MAPS(CausalKeyGradients);
#undef FAVOR_BENCH_MAPS

}  // namespace
}  // namespace favor
