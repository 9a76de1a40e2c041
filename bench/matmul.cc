// The three products of a linear layer of `out` × `in` weights on a batch of tokens, on one thread:
// by favor, and by oneDNN for comparison.
#include <benchmark/benchmark.h>

#include "benchmarks/sgemm.h"
#include "favor/context.h"
#include "kernels/matmul.h"

namespace favor {
namespace {

enum class Product { kForward, kGradInput, kGradWeights };
enum class Library { kFavor, kOneDnn };

struct Layer {
  Layer(int64_t tokens, int64_t in, int64_t out)
      : x({tokens, in}), weights({out, in}), y({tokens, out}) {}

  Tensor x, weights, y;
};

void Multiply(Product product, Layer& layer, const Context& context) {
  switch (product) {
    case Product::kForward:
      return kernels::Matmul({layer.x, kernels::Transposed(layer.weights), layer.y}, context);
    case Product::kGradInput:
      return kernels::Matmul({layer.y, layer.weights, layer.x}, context);
    case Product::kGradWeights:
      return kernels::Matmul({kernels::Transposed(layer.y), layer.x, layer.weights}, context);
  }
}

void MultiplyByOneDnn(Product product, Layer& layer) {
  const int64_t tokens = layer.x.shape()[0], in = layer.x.shape()[1], out = layer.y.shape()[1];
  float *x = layer.x.Data<float>(), *weights = layer.weights.Data<float>(),
        *y = layer.y.Data<float>();
  switch (product) {
    case Product::kForward:
      return benchmarks::Sgemm({.rows = tokens, .columns = out, .depth = in, .transpose_b = true},
                               x, weights, y);
    case Product::kGradInput:
      return benchmarks::Sgemm({.rows = tokens, .columns = in, .depth = out}, y, weights, x);
    case Product::kGradWeights:
      return benchmarks::Sgemm({.rows = out, .columns = in, .depth = tokens, .transpose_a = true},
                               y, x, weights);
  }
}

void Matmul(benchmark::State& state, Library library, Product product) {
  const int64_t tokens = state.range(0), in = state.range(1), out = state.range(2);
  const Context context({.threads = 1});
  Layer layer(tokens, in, out);
  if (library == Library::kOneDnn && !benchmarks::LargeSgemm::Available())
    return state.SkipWithError("favor was built without oneDNN");
  for (auto _ : state) {
    library == Library::kFavor ? Multiply(product, layer, context)
                               : MultiplyByOneDnn(product, layer);
  }
  state.counters["flops"] = benchmark::Counter(2.0 * static_cast<double>(tokens * in * out),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

// Layers of the presets regular, protein, tiny and small, and the logits of bytes.
void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "in", "out"})
      ->Args({2048, 512, 2048})
      ->Args({2048, 2048, 512})
      ->Args({2048, 512, 512})
      ->Args({2048, 512, 1024})
      ->Args({2048, 128, 512})
      ->Args({4096, 128, 128})
      ->Args({4096, 64, 64})
      ->Args({2048, 512, 258});
}

BENCHMARK_CAPTURE(Matmul, favor_forward, Library::kFavor, Product::kForward)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, onednn_forward, Library::kOneDnn, Product::kForward)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, favor_grad_input, Library::kFavor, Product::kGradInput)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, onednn_grad_input, Library::kOneDnn, Product::kGradInput)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, favor_grad_weights, Library::kFavor, Product::kGradWeights)->Apply(Sizes);
BENCHMARK_CAPTURE(Matmul, onednn_grad_weights, Library::kOneDnn, Product::kGradWeights)
    ->Apply(Sizes);

}  // namespace
}  // namespace favor
