// What layers compute, checked by hand: a gradient test alone would accept a wrong formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.h"
#include "layers/embedding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/positions.h"
#include "tests/layers/check_gradients.h"

namespace favor {
namespace {

class LayerForward : public testing::Test {
 protected:
  Context context_{{.threads = 1}};
  layers::ParameterSet parameters_{{.seed = 3, .type = DataType::kF64}};
};

TEST_F(LayerForward, LinearMultipliesByTheTransposeAndAddsTheBias) {
  layers::Linear layer(parameters_, "linear", 3, 2);
  parameters_.Allocate();
  const Tensor x = RandomDoubles({1, 3}, "x");
  Tensor y({1, 2}, DataType::kF64);
  double *w = parameters_.all()[0]->value.Data<double>(),
         *b = parameters_.all()[1]->value.Data<double>();
  b[1] = 0.5;
  layer.Forward(context_, x, y);
  const double* in = x.Data<double>();
  EXPECT_NEAR(y.Data<double>()[1], in[0] * w[3] + in[1] * w[4] + in[2] * w[5] + 0.5, 1e-14);
}

TEST_F(LayerForward, NormGivesMeanZeroAndVarianceOne) {
  layers::LayerNorm layer(parameters_, "norm", 50, {.epsilon = 1e-5});
  parameters_.Allocate();
  Tensor x = RandomDoubles({2, 50}, "x"), y({2, 50}, DataType::kF64), s({2, 2}, DataType::kF64);
  for (int64_t i = 0; i < 100; ++i) x.Data<double>()[i] = 3 + 7 * x.Data<double>()[i];
  layer.Forward(context_, x, s, y);
  double sum = 0, squares = 0;
  for (int64_t i = 50; i < 100; ++i) {
    sum += y.Data<double>()[i];
    squares += y.Data<double>()[i] * y.Data<double>()[i];
  }
  EXPECT_NEAR(sum / 50, 0, 1e-12);
  EXPECT_NEAR(squares / 50, 1, 1e-5);  // ε
}

// (1, 3) has mean 2 and variance 1; with ε = 3 the root is 2.
TEST_F(LayerForward, NormAddsItsEpsilonToTheVariance) {
  layers::LayerNorm layer(parameters_, "norm", 2, {.epsilon = 3, .gain = 8});
  parameters_.Allocate();
  Tensor x({1, 2}, DataType::kF64), y({1, 2}, DataType::kF64), s({1, 2}, DataType::kF64);
  x.Data<double>()[0] = 1;
  x.Data<double>()[1] = 3;
  layer.Forward(context_, x, s, y);
  EXPECT_NEAR(y.Data<double>()[0], -4, 1e-14);
  EXPECT_NEAR(y.Data<double>()[1], 4, 1e-14);
}

TEST_F(LayerForward, EmbeddingsAreRowsTimesTheScale) {
  layers::Embedding layer(parameters_, "embedding", {5, 4}, {.deviation = 0.5, .scale = 3});
  parameters_.Allocate();
  Tensor y({1, 4}, DataType::kF64);
  const int32_t token = 3;
  layer.Forward(context_, {.indices = &token}, /*add=*/false, y);
  EXPECT_NEAR(y.Data<double>()[1], 3 * layer.weight().value.Data<double>()[13], 1e-14);
}

TEST_F(LayerForward, WavesAreThoseOfThePaper) {
  layers::WaveTable waves(6, DataType::kF64);
  waves.Cover(context_, 0, 9);
  Tensor x({18, 6}, DataType::kF64);  // two sequences
  waves.AddTo(context_, 0, 9, x);
  for (const int64_t position : {0, 1, 8}) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(position) / std::pow(10000.0, 2.0 * static_cast<double>(i) / 6);
      const double* row = x.Data<double>() + (9 + position) * 6;
      EXPECT_NEAR(row[2 * i], std::sin(angle), 1e-14);
      EXPECT_NEAR(row[2 * i + 1], std::cos(angle), 1e-14);
    }
  }
}

// Tokens one by one, in pieces and from an earlier one again: the waves are those of one table.
TEST_F(LayerForward, WavesFollowAPrefix) {
  layers::WaveTable all(6, DataType::kF32), waves(6, DataType::kF32);
  constexpr int64_t kTokens = 300;
  Tensor want({kTokens, 6});
  all.Cover(context_, 0, kTokens);
  all.AddTo(context_, 0, kTokens, want);
  const auto expect = [&](int64_t first, int64_t length) {
    SCOPED_TRACE(std::to_string(length) + " from " + std::to_string(first));
    Tensor x({length, 6});
    const int64_t row = waves.Cover(context_, first, length);
    waves.AddTo(context_, row, length, x);
    for (int64_t i = 0; i < length * 6; ++i)
      ASSERT_EQ(x.Data<float>()[i], want.Data<float>()[first * 6 + i]);
  };
  for (int64_t token = 0; token < kTokens; ++token) expect(token, 1);
  for (const int64_t first : {200, 100, 0, 7}) expect(first, 1);
  for (const int64_t first : {0, 90, 180}) expect(first, 90);
  expect(60, 10);
  for (int64_t token = 270; token < kTokens; ++token) expect(token, 1);
}

// The product of a rotated query and a rotated key depends only on how far apart they are.
TEST_F(LayerForward, RotationsKnowOnlyDistances) {
  layers::WaveTable waves(8, DataType::kF64);
  waves.Cover(context_, 0, 12);
  const Tensor one = RandomDoubles({2, 8}, "query and key");
  Tensor q({12, 8}, DataType::kF64), k({12, 8}, DataType::kF64);
  for (int64_t i = 0; i < 96; ++i) {
    q.Data<double>()[i] = one.Data<double>()[i % 8];
    k.Data<double>()[i] = one.Data<double>()[8 + i % 8];
  }
  waves.Rotate(context_, 0, 12, /*back=*/false, q);
  waves.Rotate(context_, 0, 12, /*back=*/false, k);
  const auto product = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < 8; ++c)
      sum += q.Data<double>()[8 * i + c] * k.Data<double>()[8 * j + c];
    return sum;
  };
  EXPECT_NEAR(product(5, 3), product(11, 9), 1e-12);
  EXPECT_GT(std::fabs(product(5, 3) - product(5, 4)), 1e-3);
  EXPECT_GT(std::fabs(product(5, 3) - product(3, 5)), 1e-3);
  waves.Rotate(context_, 0, 12, /*back=*/true, q);
  EXPECT_NEAR(q.Data<double>()[8 * 7 + 2], one.Data<double>()[2], 1e-14);
}

TEST_F(LayerForward, CrossEntropyIsMinusTheLogarithmOfTheSoftmax) {
  Tensor logits({2, 3}, DataType::kF64);
  const double values[] = {1, 2, 4, 0, 0, -1};
  std::copy_n(values, 6, logits.Data<double>());
  const std::vector<int32_t> targets = {1, 2};
  TallyEntry tally;
  kernels::CrossEntropy({.targets = targets.data(), .logits = logits, .tally = &tally}, context_);
  const double first = std::log(std::exp(1) + std::exp(2) + std::exp(4)) - 2,
               second = std::log(2 + std::exp(-1)) + 1;
  EXPECT_NEAR(tally.loss, first + second, 1e-12);
  EXPECT_EQ(tally.correct, 0);
  EXPECT_EQ(tally.targets, 2);
}

}  // namespace
}  // namespace favor
