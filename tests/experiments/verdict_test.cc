#include "experiments/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace favor::experiments {
namespace {

using Comparisons = std::vector<Comparison>;

// Of n normal figures all lie within the threshold 999 times in 1000.
TEST(Verdict, ThresholdIsTheQuantileOfTheLargest) {
  EXPECT_NEAR(Threshold(1), 3.2905, 1e-3);
  EXPECT_NEAR(Threshold(20), 4.0556, 1e-3);
  EXPECT_NEAR(Threshold(100), 4.4172, 1e-3);
}

TEST(Verdict, FiguresThatAgreeHoldAndWrongOnesDoNot) {
  Comparisons comparisons = {{{1.01, 0.01}, 1}, {{1.98, 0.02}, 2}};
  EXPECT_EQ(AllEqual(comparisons, 0.05), Verdict::kHolds);
  comparisons[1].measured.value = 2.1;  // five standard errors
  EXPECT_EQ(AllEqual(comparisons, 0.05), Verdict::kFails);
  comparisons[1].measured.value = 1.9;
  EXPECT_EQ(AllEqual(comparisons, 0.05), Verdict::kFails);
  comparisons[0].measured.standard_error = 0.06;  // tells nothing, but the other one does
  EXPECT_EQ(AllEqual(comparisons, 0.05), Verdict::kFails);
  comparisons[1].measured.value = 2;
  EXPECT_EQ(AllEqual(comparisons, 0.05), Verdict::kNotTested);
  // Predictions that are wrong by a factor of ten, either way.
  EXPECT_EQ(AllEqual(Comparisons{{{1, 0.02}, 0.1}}, 0.05), Verdict::kFails);
  EXPECT_EQ(AllEqual(Comparisons{{{1, 0.02}, 10}}, 0.05), Verdict::kFails);
  EXPECT_EQ(AllEqual({}, 0.05), Verdict::kNotTested);
  const Comparisons broken = {{{std::nan(""), 0.01}, 1}};
  EXPECT_EQ(AllEqual(broken, 0.05), Verdict::kNotTested);
}

TEST(Verdict, ComputedFiguresMayDifferByThePrecision) {
  EXPECT_EQ(AllEqual(Comparisons{{{-0.99}, -1}}, 0.02), Verdict::kHolds);
  EXPECT_EQ(AllEqual(Comparisons{{{-0.97}, -1}}, 0.02), Verdict::kFails);
}

TEST(Verdict, BoundsAreKeptBrokenOrTooNear) {
  EXPECT_EQ(AllAtMost(Comparisons{{{0.8, 0.01}, 1}}), Verdict::kHolds);
  EXPECT_EQ(AllAtMost(Comparisons{{{1.2, 0.01}, 1}}), Verdict::kFails);
  EXPECT_EQ(AllAtMost(Comparisons{{{1.01, 0.01}, 1}}), Verdict::kNotTested);
  EXPECT_EQ(AllAtMost(Comparisons{{{0.99, 0.01}, 1}}), Verdict::kNotTested);
  EXPECT_EQ(AllAtMost(Comparisons{{{0.99, 0.01}, 1}}, 0.01), Verdict::kHolds);  // a sharp bound
  EXPECT_EQ(AllAtMost(Comparisons{{{0.99, 0.01}, 1}}, 0.009), Verdict::kNotTested);
  EXPECT_EQ(AllAtLeast(Comparisons{{{1.2, 0.01}, 1}}), Verdict::kHolds);
  EXPECT_EQ(AllAtLeast(Comparisons{{{0.8, 0.01}, 1}}), Verdict::kFails);
  EXPECT_EQ(AllAtLeast(Comparisons{{{1.01, 0.01}, 1}}), Verdict::kNotTested);
  // One clear violation decides, whatever the others are.
  EXPECT_EQ(AllAtMost(Comparisons{{{0.99, 0.01}, 1}, {{1.2, 0.01}, 1}}), Verdict::kFails);
  EXPECT_EQ(AllAtMost(Comparisons{{{0.5, 0.01}, 1}, {{0.99, 0.01}, 1}}), Verdict::kNotTested);
  EXPECT_EQ(AllAtMost({}), Verdict::kNotTested);
  // Computed figures need no distance.
  EXPECT_EQ(AllAtMost(Comparisons{{{1}, 1}}), Verdict::kHolds);
  EXPECT_EQ(AllAtMost(Comparisons{{{1.0001}, 1}}), Verdict::kFails);
  EXPECT_EQ(AllAtMost(Comparisons{{{std::nan(""), 0.1}, 1}}), Verdict::kNotTested);
}

TEST(Verdict, TextsNameWhatDecides) {
  const Comparisons comparisons = {{{0.8, 0.01}, 1}, {{4.5, 0.1}, 5}, {{0.5, 0.1}, 1}};
  EXPECT_EQ(NearestToBound(comparisons, Bound::kMost),
            "3 figures; the worst 4.50 ± 0.10 where at most 5 is claimed");
  EXPECT_EQ(NearestToBound(comparisons, Bound::kLeast),
            "3 figures; the worst 0.50 ± 0.10 where at least 1 is claimed");
  EXPECT_EQ(NearestToBound(Comparisons{{{0.8}, 1}}, Bound::kMost),
            "1 figure; 0.8 where at most 1 is claimed");
  EXPECT_EQ(LargestZ(Comparisons{{{1.01, 0.01}, 1}, {{1.9, 0.04}, 2}}),
            "2 figures with errors up to 2 %, largest |z| 2.5, threshold 3.5");
  EXPECT_EQ(LargestZ({}), "no figure is certain enough");
}

// Three samples do not know their spread: twelve of their standard errors are as rare as 2.6 of a
// known spread (t with two degrees of freedom: P[|t| > 12] = 0.0069; normal: 0.0088).
TEST(Verdict, FewSamplesNeedLargerDistances) {
  const Comparison few{{12, 1, 2}, 0};
  EXPECT_NEAR(few.Z(), 2.62, 0.01);
  EXPECT_NEAR((Comparison{{-2, 1, 30}, 0}).Z(), -1.922, 0.005);  // P[|t| > 2] = 0.0546
  EXPECT_EQ((Comparison{{2, 1}, 0}).Z(), 2);
  EXPECT_EQ(AllAtLeast(Comparisons{few}), Verdict::kNotTested);
  EXPECT_EQ(AllAtLeast(Comparisons{{{12, 1}, 0}}), Verdict::kHolds);
}

TEST(Measured, QuotientsAndDifferencesCarryTheirErrors) {
  const Measured a{6, 0.3, 9}, b{2, 0.2, 4};
  const Measured quotient = Quotient(a, b), difference = Difference(a, b);
  EXPECT_DOUBLE_EQ(quotient.value, 3);
  EXPECT_NEAR(quotient.standard_error, 3 * std::hypot(0.3 / 6, 0.2 / 2), 1e-12);
  EXPECT_EQ(quotient.freedom, 4);
  EXPECT_DOUBLE_EQ(difference.value, 4);
  EXPECT_NEAR(difference.standard_error, std::hypot(0.3, 0.2), 1e-12);
}

TEST(Measured, TextHasTheDigitsThatTheErrorLeaves) {
  EXPECT_EQ((Measured{0.12345, 0.0021}.ToText()), "0.1235 ± 0.0021");
  EXPECT_EQ((Measured{12.345, 0.21}.ToText()), "12.35 ± 0.21");
  EXPECT_EQ((Measured{1234.5, 21}.ToText()), "1234 ± 21");
  EXPECT_EQ((Measured{1.2345e-9, 2.1e-11}.ToText()), "1.23e-09 ± 2.1e-11");
  EXPECT_EQ((Measured{0.5}.ToText()), "0.5");
}

}  // namespace
}  // namespace favor::experiments
