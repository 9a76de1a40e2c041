#include "experiments/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/outputs.h"
#include "favor/features.h"

namespace favor::experiments {
namespace {

VectorPair SmallPair() { return GenericPair(4, 0.7, 1, 5); }

TEST(VectorPair, HasItsNormsAndItsAngle) {
  const VectorPair pair = SmallPair();
  EXPECT_NEAR(pair.Dot(), 0.49 * std::cos(1.0), 1e-12);
  EXPECT_NEAR(pair.SumSquare(), 2 * 0.49 * (1 + std::cos(1.0)), 1e-12);
}

// φ(x)·φ(y) of each draw by hand.
TEST(DrawEstimates, AreDotProductsOfFeatures) {
  const Context context({.threads = 1, .seed = 3});
  const VectorPair pair = SmallPair();
  Tensor rows({2, 4}, DataType::kF64);
  std::ranges::copy(pair.x, rows.Data<double>());
  std::ranges::copy(pair.y, rows.Data<double>() + 4);
  const std::vector<double> estimates = DrawEstimates({.features = 6}, pair, {130}, context);
  ASSERT_EQ(estimates.size(), 130u);
  for (const uint64_t redraw : {0u, 1u, 129u}) {
    const auto plan = FeaturePlan::Draw({.features = 6}, 1, 4, 3, redraw);
    const Tensor phi = Features(plan, rows, context);
    double dot = 0;
    for (int64_t r = 0; r < 6; ++r) dot += phi.Data<double>()[r] * phi.Data<double>()[6 + r];
    EXPECT_NEAR(estimates[redraw], dot, 1e-12);
  }
  // Another figure has draws of its own, all of them.
  const std::vector<double> others =
      DrawEstimates({.features = 6}, pair, {.count = 130, .figure = 1}, context);
  for (const double other : others) EXPECT_EQ(std::ranges::count(estimates, other), 0);
}

// 1, 2, 3, 6: mean 3, squares of deviations 4, 1, 0, 9.
TEST(Summarize, GivesMeanAndVarianceWithTheirErrors) {
  const std::vector<double> values = {1, 2, 3, 6};
  const Estimate estimate = Summarize(values);
  EXPECT_DOUBLE_EQ(estimate.mean.value, 3);
  EXPECT_DOUBLE_EQ(estimate.variance.value, 14.0 / 3);
  EXPECT_DOUBLE_EQ(estimate.mean.standard_error, std::sqrt(14.0 / 3 / 4));
  EXPECT_EQ(estimate.mean.freedom, 3);
  const double fourth = (16 + 1 + 0 + 81) / 4.0, second = 14.0 / 4;
  EXPECT_NEAR(estimate.variance.standard_error, std::sqrt((fourth - second * second) / 4), 1e-12);
}

TEST(ShareAbove, CountsAndIsNeverCertain) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(ShareAbove(values, 3).value, 0.25);
  EXPECT_DOUBLE_EQ(ShareAbove(values, 3).standard_error, std::sqrt(0.25 * 0.75 / 4));
  EXPECT_DOUBLE_EQ(ShareAbove(values, 9).value, 0);
  EXPECT_DOUBLE_EQ(ShareAbove(values, 9).standard_error, std::sqrt(0.25 * 0.75 / 4));
  EXPECT_DOUBLE_EQ(ShareAbove(values, 0).standard_error, std::sqrt(0.25 * 0.75 / 4));
}

// The spread of measured variances is what was predicted for them.
TEST(ErrorOfVariance, IsTheSpreadOfMeasuredVariances) {
  const VectorPair pair = GenericPair(4, 0.4, 1, 5);
  std::vector<double> variances;
  for (uint64_t seed = 0; seed < 200; ++seed)
    variances.push_back(MeasureEstimator(OptionsFor("positive", "gaussian", 8, pair), pair, {200},
                                         Context({.threads = 1, .seed = seed}))
                            .variance.value);
  const Estimate estimate = Summarize(variances);
  EXPECT_NEAR(std::sqrt(estimate.variance.value) / estimate.mean.value,
              ErrorOfVariance(pair.SumSquare(), 8, 200), 0.25 * 0.14);
  EXPECT_NEAR(ErrorOfVariance(pair.SumSquare(), 8, 200), 0.12, 0.03);
}

TEST(MeanSquaredError, ByHand) {
  Tensor a({2}), b({2}, DataType::kF64);
  a.Data<float>()[0] = 1;
  a.Data<float>()[1] = -2;
  b.Data<double>()[0] = 3;
  b.Data<double>()[1] = 4;
  EXPECT_DOUBLE_EQ(MeanSquaredError(a, b), (4 + 36) / 2.0);
  EXPECT_DOUBLE_EQ(MeanSquare(b), 12.5);
  EXPECT_DOUBLE_EQ(RelativeError(a, b), std::sqrt(20 / 12.5));
}

}  // namespace
}  // namespace favor::experiments
