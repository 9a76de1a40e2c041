// Every layer: gradients with respect to inputs and parameters against central differences in
// double.
#include <algorithm>

#include <gtest/gtest.h>

#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/multi_head_attention.h"
#include "tests/layers/check_gradients.h"

namespace favor {
namespace {

using layers::ParameterSet;

class LayerGradients : public testing::Test {
 protected:
  // Biases start at 0, where a wrong sign would not show.
  void Shake() {
    for (const auto& parameter : parameters_.all()) {
      const Tensor noise = RandomDoubles(parameter->shape, parameter->name);
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
        parameter->value.Data<double>()[i] += 0.2 * noise.Data<double>()[i];
    }
    parameters_.ZeroGradients();
  }
  void ExpectParameterGradients(const std::function<double()>& loss) {
    for (const auto& parameter : parameters_.all())
      ExpectGradient(parameter->name, parameter->value, parameter->grad, loss);
  }

  Context context_{{.threads = 2}};
  ParameterSet parameters_{{.seed = 3, .type = DataType::kF64}};
};

TEST_F(LayerGradients, Linear) {
  layers::Linear layer(parameters_, "linear", 5, 7);
  Shake();
  Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, 7}, "w");
  Tensor y({6, 7}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
  const auto loss = [&] {
    layer.Forward(context_, x, y);
    return WeightedSum(weights, y);
  };
  layer.Backward(context_, x, weights, grad_x);
  ExpectGradient("x", x, grad_x, loss);
  ExpectParameterGradients(loss);
  // A second time adds: to the parameters always, to grad_x where told.
  Tensor twice = grad_x.Clone();
  layer.Backward(context_, x, weights, twice, /*add=*/true);
  EXPECT_NEAR(twice.Data<double>()[3], 2 * grad_x.Data<double>()[3], 1e-12);
}

TEST_F(LayerGradients, LayerNorm) {
  layers::LayerNorm layer(parameters_, "norm", 11, {.epsilon = 0.1});
  Shake();
  Tensor x = RandomDoubles({5, 11}, "x"), weights = RandomDoubles({5, 11}, "w");
  Tensor y({5, 11}, DataType::kF64), statistics({5, 2}, DataType::kF64),
      grad_x({5, 11}, DataType::kF64);
  const auto loss = [&] {
    layer.Forward(context_, x, statistics, y);
    return WeightedSum(weights, y);
  };
  loss();
  Tensor again({5, 11}, DataType::kF64);
  layer.Again(context_, x, statistics, again);
  EXPECT_EQ(again.Data<double>()[17], y.Data<double>()[17]);
  layer.Backward(context_, x, statistics, weights, grad_x, /*add=*/false);
  ExpectGradient("x", x, grad_x, loss);
  ExpectParameterGradients(loss);
}

TEST_F(LayerGradients, EmbeddingWithRepeatedTokens) {
  layers::Embedding layer(parameters_, "embedding", {6, 4}, {.deviation = 0.5, .scale = 3});
  Shake();
  const std::vector<int32_t> tokens = {2, 0, 2, 5, 2};
  Tensor weights = RandomDoubles({5, 4}, "w"), y({5, 4}, DataType::kF64);
  layer.Backward(context_, tokens, weights);
  ExpectParameterGradients([&] {
    layer.Forward(context_, tokens, /*add=*/false, y);
    return WeightedSum(weights, y);
  });
}

TEST_F(LayerGradients, FeedForward) {
  for (const auto activation : {Activation::kGelu, Activation::kRelu, Activation::kGeluTanh}) {
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    layers::FeedForward layer(parameters_, "ff", 5, 9, activation, 0.7);
    Shake();
    layers::Arena arena(DataType::kF64);
    layer.Plan(arena, 6);
    layer.PlanWorkspace(arena, 6, true);
    arena.Provide();
    const auto a = layer.Plan(arena, 6);
    const auto w = layer.PlanWorkspace(arena, 6, true);
    Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, 5}, "w");
    Tensor y({6, 5}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, x, a, w, y);
      return WeightedSum(weights, y);
    };
    loss();
    layer.Backward(context_, x, a, w, weights, grad_x);
    ExpectGradient("x", x, grad_x, loss);
    ExpectParameterGradients(loss);
  }
}

TEST_F(LayerGradients, Convolution) {
  Tensor mask({3, 4});
  for (int64_t i = 0; i < 12; ++i) mask.Data<float>()[i] = i == 2 || i == 11 ? 0.0f : 1.0f;
  for (const bool causal : {true, false}) {
    for (const bool masked : {true, false}) {
      parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
      layers::Convolution layer(parameters_, "convolution", 3, 5, causal);
      Shake();
      layers::Sequences sequences{.batch = 3, .length = 4, .mask = {}};
      if (masked) sequences.mask = mask;
      Tensor x = RandomDoubles({12, 5}, "x"), weights = RandomDoubles({12, 5}, "w");
      Tensor y({12, 5}, DataType::kF64), grad_x({12, 5}, DataType::kF64);
      const auto loss = [&] {
        layer.Forward(context_, sequences, x, y);
        return WeightedSum(weights, y);
      };
      layer.Backward(context_, sequences, x, weights, grad_x);
      ExpectGradient("x", x, grad_x, loss);
      ExpectParameterGradients(loss);
      // The first token of the second sequence by hand.
      loss();
      const double *w = parameters_.all()[0]->value.Data<double>(), *in = x.Data<double>();
      const double expected = causal ? w[0] * in[20] : w[5] * in[20] + w[0] * in[25];
      EXPECT_NEAR(y.Data<double>()[20], expected, 1e-12);
    }
  }
}

TEST_F(LayerGradients, MultiHeadAttention) {
  struct Variant {
    const char* attention;
    bool causal, rotary, masked;
    int64_t kv_heads, convolution = 0;
  };
  for (const Variant& v : {Variant{"exact", true, true, false, 2},
                           {"exact", false, false, true, 1},
                           {"linear", true, true, false, 1},
                           {"linear", false, false, true, 2},
                           {"identity", true, false, false, 2}}) {
    SCOPED_TRACE(std::string(v.attention) + (v.causal ? " causal" : "") +
                 (v.rotary ? " rotary" : "") + (v.masked ? " masked" : ""));
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    AttentionOptions options{.attention = v.attention, .causal = v.causal};
    options.features.features = 8;
    const int64_t kv_heads = std::string(v.attention) == "identity" ? 2 : v.kv_heads;
    layers::MultiHeadAttention layer(
        parameters_, "attention",
        {.width = 8, .heads = 2, .kv_heads = kv_heads, .convolution = v.convolution}, options, 0.7);
    layer.Redraw(5, 0);
    Shake();
    layers::WaveTable waves(4, DataType::kF64);
    waves.Cover(0, 5);
    Tensor mask({2, 5});
    for (int64_t i = 0; i < 10; ++i) mask.Data<float>()[i] = i == 4 || i >= 8 ? 0.0f : 1.0f;
    layers::MultiHeadAttention::Rows rows{.sequences = {.batch = 2, .length = 5, .mask = {}}};
    if (v.masked) rows.sequences.mask = mask;
    if (v.rotary) rows.rotary = &waves;
    layers::Arena arena(DataType::kF64);
    layer.Plan(arena, 10);
    layer.PlanWorkspace(arena, 10, true);
    arena.Provide();
    auto a = layer.Plan(arena, 10);
    const auto w = layer.PlanWorkspace(arena, 10, true);
    Tensor x = RandomDoubles({10, 8}, "x"), weights = RandomDoubles({10, 8}, "w");
    Tensor y({10, 8}, DataType::kF64), grad_x({10, 8}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, rows, x, a, /*training=*/true, y);
      return WeightedSum(weights, y);
    };
    loss();
    layer.Backward(context_, rows, x, a, w, weights, grad_x);
    ExpectGradient("x", x, grad_x, loss);
    ExpectParameterGradients(loss);
  }
}

TEST_F(LayerGradients, CrossEntropy) {
  Tensor logits = RandomDoubles({4, 9}, "logits");
  const std::vector<int32_t> targets = {3, 8, 0, 0};
  const auto score = [&](double scale, Tensor& copy) {
    return layers::CrossEntropy(context_, copy, targets, scale);
  };
  Tensor gradient = logits.Clone();
  const Score with = score(0.5, gradient);
  EXPECT_EQ(with.count, 4);
  ExpectGradient("logits", logits, gradient, [&] {
    Tensor copy = logits.Clone();
    return 0.5 * score(0, copy).loss;
  });
}

// Dropout is linear in its input once it is drawn: its own gradient. What counts is the mean.
TEST_F(LayerGradients, DropoutKeepsTheMeanAndDrawsAgain) {
  const layers::Pass pass{.context = context_, .dropout = 0.25, .stream = RandomStream(1, "d")};
  Tensor x({1000, 37}, DataType::kF64), y({1000, 37}, DataType::kF64),
      again({1000, 37}, DataType::kF64);
  std::fill_n(x.Data<double>(), 37000, 1.0);
  layers::Drop(pass, 3, x, y);
  layers::Drop(pass, 3, x, again);
  double sum = 0, zeros = 0;
  for (int64_t i = 0; i < 37000; ++i) {
    sum += y.Data<double>()[i];
    zeros += y.Data<double>()[i] == 0 ? 1 : 0;
    ASSERT_EQ(y.Data<double>()[i], again.Data<double>()[i]);
  }
  // Five standard errors of 37,000 draws.
  EXPECT_NEAR(zeros / 37000, 0.25, 0.0113);
  EXPECT_NEAR(sum / 37000, 1, 0.0151);
  layers::Drop(pass, 4, x, again);
  int64_t different = 0;
  for (int64_t i = 0; i < 37000; ++i)
    different += y.Data<double>()[i] != again.Data<double>()[i] ? 1 : 0;
  EXPECT_GT(different, 10000);
}

}  // namespace
}  // namespace favor
