// The three products of a linear layer of `out` × `in` weights on a batch of tokens, on one thread.
#include <benchmark/benchmark.h>

#include "favor/context.h"
#include "kernels/matmul.h"

namespace favor {
namespace {

enum class Product { kForward, kGradInput, kGradWeights };

void Matmul(benchmark::State& state, Product product) {
  const int64_t tokens = state.range(0), in = state.range(1), out = state.range(2);
  const Context context({.threads = 1});
  Tensor x({tokens, in}), weights({out, in}), y({tokens, out});
  const auto run = [&] {
    switch (product) {
      case Product::kForward:
        return kernels::Matmul({x, kernels::Transposed(weights), y}, context);
      case Product::kGradInput:
        return kernels::Matmul({y, weights, x}, context);
      case Product::kGradWeights:
        return kernels::Matmul({kernels::Transposed(y), x, weights, true}, context);
    }
  };
  for (auto _ : state) run();
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(tokens * in * out),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "in", "out"})
      ->Args({2048, 512, 2048})
      ->Args({2048, 2048, 512})
      ->Args({2048, 512, 512})
      ->Args({4096, 128, 128})
      ->Args({4096, 64, 64})
      ->Args({2048, 512, 258});
}

BENCHMARK_CAPTURE(Matmul, forward, Product::kForward)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, grad_input, Product::kGradInput)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, grad_weights, Product::kGradWeights)->Apply(Sizes);

}  // namespace
}  // namespace favor
