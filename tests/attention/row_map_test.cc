// Maps that make features from a row alone, without ω: taylor1, whose kernel is 1 + x·y exactly.
#include <gtest/gtest.h>

#include <cmath>

#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

// Attention by definition: weights 1 + q·k/√d.
Tensor ByHand(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const int64_t heads = q.shape()[0], length = q.shape()[1], d = q.shape()[2], dv = v.shape()[2];
  Tensor out({heads, length, dv}, DataType::kF64);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      double denominator = 0;
      std::vector<double> numerator(static_cast<size_t>(dv), 0.0);
      for (int64_t j = 0; j < (causal ? i + 1 : length); ++j) {
        double dot = 0;
        for (int64_t c = 0; c < d; ++c)
          dot += static_cast<double>(q.Data<float>()[(h * length + i) * d + c]) *
                 k.Data<float>()[(h * length + j) * d + c];
        const double weight = 1 + dot / std::sqrt(static_cast<double>(d));
        denominator += weight;
        for (int64_t c = 0; c < dv; ++c)
          numerator[static_cast<size_t>(c)] += weight * v.Data<float>()[(h * length + j) * dv + c];
      }
      for (int64_t c = 0; c < dv; ++c)
        out.Data<double>()[(h * length + i) * dv + c] =
            denominator > 0 ? numerator[static_cast<size_t>(c)] / denominator : 0;
    }
  }
  return out;
}

class Taylor1 : public testing::TestWithParam<bool> {
 protected:
  const Context context{{.seed = 5}};
  const Tensor q = RandomTensor({2, 150, 20}, 0.4, 1), k = RandomTensor({2, 150, 20}, 0.4, 2),
               v = RandomTensor({2, 150, 7}, 1, 3), grad_out = RandomTensor({2, 150, 7}, 1, 4);
  AttentionOptions options{.causal = GetParam(), .features = {.map = "taylor1"}};
};

TEST_P(Taylor1, IsThePolynomialOfItsName) {
  EXPECT_LT(LargestDifference(Attend(q, k, v, options, context), ByHand(q, k, v, GetParam())),
            2e-5);
  options.reference = true;
  EXPECT_LT(LargestDifference(Attend(q, k, v, options, context), ByHand(q, k, v, GetParam())),
            1e-11);
}

TEST_P(Taylor1, HasTheGradientsOfTheReference) {
  const Tensor out = Attend(q, k, v, options, context);
  const AttentionGradients fast = AttendBackward({q, k, v, out, grad_out}, options, context);
  options.reference = true;
  const Tensor exact_out = Attend(q, k, v, options, context);
  const AttentionGradients exact = AttendBackward({q, k, v, exact_out, grad_out}, options, context);
  EXPECT_LT(LargestDifference(fast.q, exact.q), 1e-4);
  EXPECT_LT(LargestDifference(fast.k, exact.k), 1e-4);
  EXPECT_LT(LargestDifference(fast.v, exact.v), 1e-4);
  // Gradients of the reference against differences of the formula.
  constexpr double kStep = 1e-3;
  const auto loss = [&](const Tensor& keys) {
    const Tensor o = ByHand(q, keys, v, GetParam());
    double sum = 0;
    for (int64_t i = 0; i < o.shape().Elements(); ++i)
      sum += o.Data<double>()[i] * grad_out.Data<float>()[i];
    return sum;
  };
  for (const int64_t at : {int64_t{3}, int64_t{40 * 20 + 7}, int64_t{3000 + 90 * 20 + 19}}) {
    Tensor up = k.Clone(), down = k.Clone();
    up.Data<float>()[at] += static_cast<float>(kStep);
    down.Data<float>()[at] -= static_cast<float>(kStep);
    const double difference = static_cast<double>(up.Data<float>()[at]) - down.Data<float>()[at];
    EXPECT_NEAR(exact.k.Data<double>()[at], (loss(up) - loss(down)) / difference, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Directions, Taylor1, testing::Bool(),
                         [](const auto& test) { return test.param ? "causal" : "bidirectional"; });

TEST(RowMap, HasNoOmega) {
  const auto plan = FeaturePlan::Draw({.map = "taylor1"}, 2, 9, 1);
  EXPECT_EQ(plan.width(), 10);
  EXPECT_EQ(plan.features(), 10);
  EXPECT_THROW(plan.Omega(), Error);
  EXPECT_THROW(FeaturePlan::WithOmega({.map = "taylor1"}, 2, Tensor({10, 9})), Error);
  const std::vector<double> x = {1, 2, 0, 0, 0, 0, 0, 0, 0}, y = {3, -1, 5, 0, 0, 0, 0, 0, 0};
  EXPECT_NEAR(*plan.Kernel(x, y), 2, 1e-12);
  EXPECT_EQ(*plan.ExpectedMse(x, y), 0);
}

}  // namespace
}  // namespace favor
