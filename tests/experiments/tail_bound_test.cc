#include "experiments/tail_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace favor::experiments {
namespace {

// In one dimension a term has two values, b > a with probability ½ each: E e^{θX} by hand, and
// L(t) = log 2 + p log p + (1 − p) log(1 − p) with p = (t − a)/(b − a).
TEST(TailBound, OfTwoValuesIsTheRelativeEntropy) {
  const auto term = [](double u) { return std::exp(u); };
  const double a = std::exp(-1.0), b = std::exp(1.0);
  for (const double p : {0.6, 0.8, 0.99}) {
    const double level = a + p * (b - a);
    const LegendreTransform transform = TransformOf(1, term, level);
    EXPECT_NEAR(transform.rate, std::log(2) + p * std::log(p) + (1 - p) * std::log(1 - p), 1e-9);
    EXPECT_NEAR(transform.log_moment,
                std::log((std::exp(transform.theta * a) + std::exp(transform.theta * b)) / 2),
                1e-9);
    EXPECT_NEAR(ChernoffBound(transform, 3), std::exp(-3 * transform.rate), 1e-12);
  }
  EXPECT_TRUE(std::isinf(TransformOf(1, term, 1.001 * b).rate));
  EXPECT_EQ(ChernoffBound(TransformOf(1, term, 1.001 * b), 4), 0);
}

// In three dimensions a coordinate of a direction is uniform on [−1, 1]: with X = u,
// E e^{θX} = sinh(θ)/θ.
TEST(TailBound, OfACoordinateInThreeDimensions) {
  const LegendreTransform transform = TransformOf(
      3, [](double u) { return u; }, 0.5);
  const double theta = transform.theta;
  EXPECT_NEAR(transform.log_moment, std::log(std::sinh(theta) / theta), 1e-7);
  EXPECT_NEAR(1 / std::tanh(theta) - 1 / theta, 0.5, 1e-7);  // where the supremum is attained
  EXPECT_NEAR(transform.rate, theta * 0.5 - transform.log_moment, 1e-12);
}

// In two dimensions and with X = u² = (1 + cos 2t)/2: E e^{θX} = e^{θ/2} I₀(θ/2).
TEST(TailBound, OfASquareInTwoDimensions) {
  const LegendreTransform transform = TransformOf(
      2, [](double u) { return u * u; }, 0.7);
  const double half = transform.theta / 2;
  EXPECT_NEAR(transform.log_moment, half + std::log(std::cyl_bessel_i(0.0, half)), 1e-9);
}

// ρ by hand for two rows, and 1 for a single one: then orthogonality means nothing.
TEST(TailBound, ShareOfOrthogonalRows) {
  const LegendreTransform transform{.rate = 1, .theta = 0.7, .log_moment = 0.9};
  const double at_zero = 0.6;
  EXPECT_DOUBLE_EQ(OrthogonalShare(transform, 5, 1, at_zero), 1);
  const double moment = std::exp(0.9), constant = std::exp(0.7 * at_zero);
  // Of M² = (c + (M − c))²: all but (M − c)².
  const double share = 1 - std::pow(moment - constant, 2) / (moment * moment);
  EXPECT_NEAR(OrthogonalShare(transform, 5, 2, at_zero), 5.0 / 7 + 2.0 / 7 * share, 1e-12);
}

}  // namespace
}  // namespace favor::experiments
