// The kernels of exact attention, one thread, one head of 2048 rows, d = 64. GFLOP/s count 2·d for
// each pair of a query and a key that it sees, and each product that the formulas need.
#include <benchmark/benchmark.h>

#include <functional>
#include <vector>

#include "benchmarks/random_tensor.h"
#include "kernels/cpu/simd/exact_rows.h"

namespace favor {
namespace {

constexpr int64_t kRows = 2048, kDim = 64;
constexpr kernels::RowRange kAll{0, kRows};

void Keep(const kernels::RowCounts& counts) { benchmark::DoNotOptimize(counts); }

struct Setup {
  Setup() {
    Keep(kernels::cpu::Exact(rows, kAll, context, {.output = out, .log_sum = log_sum.data()}));
  }

  const Context context{{.threads = 1}};
  const Tensor q = benchmarks::RandomNormal({kRows, kDim}, 0.5, 1, "q"),
               k = benchmarks::RandomNormal({kRows, kDim}, 0.5, 1, "k"),
               v = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "v"),
               grad_out = benchmarks::RandomNormal({kRows, kDim}, 1, 1, "gradient");
  Tensor out{{kRows, kDim}}, grad_q{{kRows, kDim}}, grad_k{{kRows, kDim}}, grad_v{{kRows, kDim}};
  std::vector<double> log_sum = std::vector<double>(kRows), delta = std::vector<double>(kRows);
  const kernels::ExactHead rows{.queries = q, .keys = k, .values = v, .scale = 0.125};
  const kernels::HeadGradients gradients{.grad_output = grad_out,
                                         .log_sum = log_sum.data(),
                                         .delta = delta.data(),
                                         .grad_queries = grad_q,
                                         .grad_keys = grad_k,
                                         .grad_values = grad_v};
};

void Measure(benchmark::State& bench, int products,
             const std::function<kernels::RowCounts(Setup&)>& work,
             double pairs = double{kRows} * kRows) {
  Setup setup;
  for (auto _ : bench) Keep(work(setup));
  bench.counters["GFLOP/s"] = benchmark::Counter(2.0 * pairs * kDim * products / 1e9,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void Exact(benchmark::State& bench) {
  Measure(bench, 2,
          [](Setup& s) { return kernels::cpu::Exact(s.rows, kAll, s.context, {.output = s.out}); });
}
// A window, in tasks of as many rows as a call cuts.
void ExactWindow(benchmark::State& bench) {
  constexpr int64_t kWindow = 64, kTaskRows = 64;
  Measure(
      bench, 2,
      [](Setup& s) {
        kernels::ExactHead rows = s.rows;
        rows.window = kWindow;
        kernels::RowCounts counts;
        for (int64_t row = 0; row < kRows; row += kTaskRows)
          counts += kernels::cpu::Exact(rows, {row, row + kTaskRows}, s.context, {.output = s.out});
        return counts;
      },
      double{kRows} * (2 * kWindow + 1) - kWindow * (kWindow + 1));
}
// A block of queries and a block of keys, as a backward call cuts them.
void ExactGradients(benchmark::State& bench) {
  constexpr int64_t kSide = 256, kBlocks = kRows / kSide;
  Measure(
      bench, 5,
      [](Setup& s) {
        kernels::RowCounts counts;
        for (int64_t query = 0; query < kBlocks; ++query) {
          for (int64_t key = 0; key < kBlocks; ++key) {
            counts += kernels::cpu::ExactGradients(s.rows, s.gradients,
                                                   {.queries = {query * kSide, (query + 1) * kSide},
                                                    .keys = {key * kSide, (key + 1) * kSide},
                                                    .add_to_queries = true,
                                                    .add_to_keys = true},
                                                   s.context);
          }
        }
        return counts;
      },
      double{kBlocks * kSide} * (kBlocks * kSide));
}
BENCHMARK(Exact);
BENCHMARK(ExactWindow);
BENCHMARK(ExactGradients);

}  // namespace
}  // namespace favor
