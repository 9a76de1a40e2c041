// Every layer: gradients with respect to inputs and parameters against central differences in
// double.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "kernels/cross_entropy.h"
#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/joint_linear.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "tests/layers/layer_gradients.h"

namespace favor {
namespace {

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
  // A second call adds: always to the gradients of parameters, to grad_x only if told to.
  Tensor twice = grad_x.Clone();
  layer.Backward(context_, x, weights, twice, /*add=*/true);
  EXPECT_NEAR(twice.Data<double>()[3], 2 * grad_x.Data<double>()[3], 1e-12);
}

// Sizes that leave gaps between parameters that do not follow each other.
const std::vector<layers::NamedColumns> kParts = {{"a", 3}, {"b", 7}, {"c", 2}};

TEST_F(LayerGradients, JointLinear) {
  for (const size_t first : {0, 1, 2}) {
    const int64_t columns = std::array{12, 9, 2}[first];
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    layers::LayerNorm(parameters_, "before", 5, {});  // so that they do not begin at 0
    layers::JointLinear layer(parameters_, kParts, 5);
    layers::LayerNorm(parameters_, "behind", 5, {});
    Shake();
    Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, columns}, "w");
    Tensor y({6, columns}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, x, y, first);
      return WeightedSum(weights, y);
    };
    layer.Backward(context_, x, weights, grad_x, first);
    ExpectGradient("x", x, grad_x, loss);
    ExpectParameterGradients(loss);  // of unread parts 0
  }
}

// Gradients of parts that a step does not read are 0 when it ends, whatever they held.
TEST_F(LayerGradients, JointLinearLeavesNothingOfUnreadParts) {
  layers::JointLinear layer(parameters_, kParts, 5);
  Shake();
  const Tensor x = RandomDoubles({6, 5}, "x"), all = RandomDoubles({6, 12}, "all"),
               last = RandomDoubles({6, 2}, "last");
  Tensor grad_x({6, 5}, DataType::kF64);
  parameters_.BeginGradients(context_);
  layer.Backward(context_, x, all, grad_x);
  parameters_.SettleGradients(context_);
  parameters_.BeginGradients(context_);
  layer.Backward(context_, x, last, grad_x, /*first=*/2);
  parameters_.SettleGradients(context_);
  for (const auto& parameter : parameters_.all()) {
    for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
      EXPECT_EQ(parameter->grad.Data<double>()[i] != 0, parameter->name[0] == 'c');
  }
}

// Each part has the parameters of a Linear of its name, and its columns are what that computes.
TEST_F(LayerGradients, JointLinearIsSeveralLinears) {
  layers::JointLinear layer(parameters_, kParts, 5);
  parameters_.Allocate();
  const Tensor x = RandomDoubles({6, 5}, "x");
  Tensor y({6, 12}, DataType::kF64);
  const auto set = [](double* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] = 0.5 * static_cast<double>(i + count);
  };
  for (const auto& parameter : parameters_.all()) {
    if (parameter->name.ends_with("bias"))
      set(parameter->value.Data<double>(), parameter->shape[0]);
  }
  layer.Forward(context_, x, y);
  int64_t column = 0;
  for (const auto& [name, columns] : kParts) {
    ParameterSet own({.seed = 3, .type = DataType::kF64});
    layers::Linear linear(own, name, 5, columns);
    own.Allocate();
    set(linear.bias().value.Data<double>(), columns);
    Tensor want({6, columns}, DataType::kF64);
    linear.Forward(context_, x, want);
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t j = 0; j < columns; ++j)
        EXPECT_NEAR(y.Data<double>()[row * 12 + column + j], want.Data<double>()[row * columns + j],
                    1e-12);
    }
    column += columns;
  }
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
  layer.Backward(context_, {.indices = tokens.data()}, weights);
  ExpectParameterGradients([&] {
    layer.Forward(context_, {.indices = tokens.data()}, /*add=*/false, y);
    return WeightedSum(weights, y);
  });
}

TEST_F(LayerGradients, FeedForward) {
  for (const auto activation : {Activation::kGelu, Activation::kRelu, Activation::kGeluTanh}) {
    parameters_ = ParameterSet({.seed = 3, .type = DataType::kF64});
    layers::FeedForward layer(
        parameters_, "ff",
        {.width = 5, .ff = 9, .activation = activation, .output_gain = 0.7, .linearised = {}});
    Shake();
    layers::Arena arena(DataType::kF64);
    layer.Reserve(arena, 6);
    layer.ReserveWorkspace(arena, 6, true);
    arena.Provide();
    const auto a = layer.Reserve(arena, 6);
    const auto w = layer.ReserveWorkspace(arena, 6, true);
    Tensor x = RandomDoubles({6, 5}, "x"), weights = RandomDoubles({6, 5}, "w");
    Tensor y({6, 5}, DataType::kF64), grad_x({6, 5}, DataType::kF64);
    const auto loss = [&] {
      layer.Forward(context_, x, a, w, {}, /*kept=*/nullptr, y);
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
      layers::Convolution layer(parameters_, {{"first", 2}, {"second", 3}}, 3, causal);
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
      // The first token of the second sequence by hand: a column of each part.
      loss();
      const double *w = parameters_.all()[0]->value.Data<double>(), *in = x.Data<double>();
      const double expected = causal ? w[0] * in[20] : w[2] * in[20] + w[0] * in[25];
      EXPECT_NEAR(y.Data<double>()[20], expected, 1e-12);
      const double* second = parameters_.all()[1]->value.Data<double>();
      const double other = causal ? second[1] * in[23] : second[4] * in[23] + second[1] * in[28];
      EXPECT_NEAR(y.Data<double>()[23], other, 1e-12);
      // From the second part on.
      Tensor last({12, 3}, DataType::kF64);
      layer.Forward(context_, sequences, x.view().Range(1, 2, 3), last, /*first=*/1);
      for (int64_t i = 0; i < 36; ++i)
        EXPECT_EQ(last.Data<double>()[i], y.Data<double>()[i / 3 * 5 + 2 + i % 3]);
    }
  }
}

TEST_F(LayerGradients, CrossEntropy) {
  Tensor logits = RandomDoubles({4, 9}, "logits");
  const std::vector<int32_t> targets = {3, 8, 0, 0};
  const auto score = [&](double scale, Tensor& copy) {
    TallyEntry tally;
    kernels::CrossEntropy(
        {.targets = targets.data(), .grad_scale = scale, .logits = copy, .tally = &tally},
        context_);
    return tally;
  };
  Tensor gradient = logits.Clone();
  EXPECT_EQ(score(0.5, gradient).targets, 4);
  ExpectGradient("logits", logits, gradient, [&] {
    Tensor copy = logits.Clone();
    return 0.5 * score(0, copy).loss;
  });
}

// Once it is drawn, dropout is linear in its input: its gradient is the same operation. The mean
// must stay.
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
