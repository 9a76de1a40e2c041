// The kernels of linear attention, one thread, one head of 4096 rows, d = 64, m = 256. GFLOP/s
// count the products that the formulas need: 2·m·d for each of them and row.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "features/plan.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"
#include "lab/arrays.h"

namespace favor {
namespace {

constexpr int64_t kRows = 4096, kDim = 64, kFeatures = 256, kChunk = kernels::cpu::kDefaultChunk;

struct Setup {
  explicit Setup(const std::string& map)
      : plan(FeaturePlan::Draw({.map = map, .features = kFeatures}, 1, kDim, 1)),
        head(plan.impl().Head(0)),
        state(head.Width(), kDim),
        adjoint(head.Width(), kDim) {
    kernels::cpu::AppendKeys(head, keys, 0, kRows, context, state);
    kernels::cpu::ReadQueries(head, queries, 0, kRows, state, context,
                              {.output = out, .log_sum = log_sum.data()});
    kernels::cpu::AppendQueries(head, queries, gradients, 0, kRows, context, adjoint);
  }

  const Context context{{.threads = 1}};
  const FeaturePlan plan;
  const kernels::HeadFeatures& head;
  const Tensor q = lab::RandomNormal({kRows, kDim}, 0.5, 1, "q"),
               k = lab::RandomNormal({kRows, kDim}, 0.5, 1, "k"),
               v = lab::RandomNormal({kRows, kDim}, 1, 1, "v"),
               grad_out = lab::RandomNormal({kRows, kDim}, 1, 1, "gradient");
  Tensor out{{kRows, kDim}}, grad_q{{kRows, kDim}}, grad_k{{kRows, kDim}}, grad_v{{kRows, kDim}};
  std::vector<double> log_sum = std::vector<double>(kRows), delta = std::vector<double>(kRows);
  const kernels::KeyRows keys{.keys = k, .values = v, .sqrt_scale = 0.3535};
  const kernels::QueryRows queries{.queries = q, .sqrt_scale = 0.3535};
  const kernels::GradientRows gradients{.grad_output = grad_out,
                                        .log_sum = log_sum.data(),
                                        .delta = delta.data(),
                                        .grad_queries = grad_q,
                                        .grad_keys = grad_k,
                                        .grad_values = grad_v};
  kernels::PrefixState state, adjoint;
};

void Measure(benchmark::State& bench, const char* map, int products,
             const std::function<void(Setup&)>& work) {
  Setup setup(map);
  for (auto _ : bench) work(setup);
  const double flops = 2.0 * kRows * kFeatures * kDim * products;
  bench.counters["GFLOP/s"] =
      benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void Append(benchmark::State& bench, const char* map) {
  Measure(bench, map, 2, [](Setup& s) {
    kernels::PrefixState state(s.head.Width(), kDim);
    kernels::cpu::AppendKeys(s.head, s.keys, 0, kRows, s.context, state);
  });
}
void Read(benchmark::State& bench, const char* map) {
  Measure(bench, map, 2, [](Setup& s) {
    kernels::cpu::ReadQueries(s.head, s.queries, 0, kRows, s.state, s.context, {.output = s.out});
  });
}
void Causal(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    kernels::PrefixState state(s.head.Width(), kDim);
    kernels::cpu::Causal(s.head, s.queries, s.keys, 0, kRows, kChunk, s.context, state,
                         {.output = s.out});
  });
}
void QueryGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    kernels::PrefixState adjoint(s.head.Width(), kDim);
    for (size_t r = 0; r < adjoint.c.size(); ++r) adjoint.c[r] = -s.state.c[r];
    kernels::cpu::QueryGradients(s.head, s.queries, s.gradients, 0, kRows, s.state, s.context,
                                 adjoint);
  });
}
void KeyGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 4, [](Setup& s) {
    kernels::cpu::KeyGradients(s.head, s.keys, s.gradients, 0, kRows, s.adjoint, s.context);
  });
}
void CausalQueryGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 5, [](Setup& s) {
    kernels::PrefixState state(s.head.Width(), kDim);
    kernels::cpu::CausalQueryGradients(s.head, s.queries, s.keys, s.gradients, 0, kRows, kChunk,
                                       s.context, state);
  });
}
void CausalKeyGradients(benchmark::State& bench, const char* map) {
  Measure(bench, map, 6, [](Setup& s) {
    kernels::PrefixState adjoint(s.head.Width(), kDim);
    kernels::cpu::CausalKeyGradients(s.head, s.queries, s.keys, s.gradients, 0, kRows, kChunk,
                                     s.context, adjoint);
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
