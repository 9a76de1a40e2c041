#include "reports/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace favor::reports {
namespace {

// Six cases of three classes: actual 0 0 1 1 1 2, predicted 0 1 1 1 0 0.
class SixCases : public testing::Test {
 protected:
  const std::vector<double> scores_ = {0.5, 0.3, 0.2,  //
                                       0.2, 0.6, 0.2,  //
                                       0.1, 0.8, 0.1,  //
                                       0.3, 0.5, 0.2,  //
                                       0.6, 0.3, 0.1,  //
                                       0.7, 0.1, 0.2};
  const std::vector<int32_t> actual_ = {0, 0, 1, 1, 1, 2};
  const ClassMetrics metrics_ = MeasureClasses(scores_, actual_, 3);
};

TEST_F(SixCases, CountsAndConfusion) {
  EXPECT_EQ(metrics_.count, 6);
  EXPECT_EQ(metrics_.right, 3);
  EXPECT_DOUBLE_EQ(metrics_.Accuracy(), 0.5);
  EXPECT_EQ(metrics_.confusion,
            (std::vector<std::vector<int64_t>>{{1, 1, 0}, {1, 2, 0}, {1, 0, 0}}));
}

TEST_F(SixCases, FiguresOfClasses) {
  const auto& of = metrics_.classes;
  EXPECT_DOUBLE_EQ(of[0].Precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(of[0].Recall(), 1.0 / 2);
  EXPECT_DOUBLE_EQ(of[0].F1(), 2.0 / 5);
  EXPECT_DOUBLE_EQ(of[1].Precision(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(of[1].Recall(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(of[1].F1(), 2.0 / 3);
  EXPECT_TRUE(std::isnan(of[2].Precision()));
  EXPECT_DOUBLE_EQ(of[2].Recall(), 0);
  EXPECT_DOUBLE_EQ(of[2].F1(), 0);
  EXPECT_DOUBLE_EQ(metrics_.BalancedAccuracy(), (0.5 + 2.0 / 3 + 0) / 3);
  EXPECT_DOUBLE_EQ(metrics_.MacroF1(), (0.4 + 2.0 / 3 + 0) / 3);
}

// Pairs of a member and another in which the member's score is higher; ties count half.
TEST_F(SixCases, AurocIsAShareOfPairs) {
  // Class 0: members 0.5, 0.2; others 0.1, 0.3, 0.6, 0.7. Higher: 0.5 than two, 0.2 than one.
  EXPECT_DOUBLE_EQ(metrics_.classes[0].auroc, 3.0 / 8);
  // Class 1: members 0.8, 0.5, 0.3; others 0.3, 0.6, 0.1: 3 + 2 + 1.5.
  EXPECT_DOUBLE_EQ(metrics_.classes[1].auroc, 6.5 / 9);
  // Class 2: member 0.2; others 0.2, 0.2, 0.1, 0.2, 0.1: 2 + three ties.
  EXPECT_DOUBLE_EQ(metrics_.classes[2].auroc, 3.5 / 5);
  EXPECT_DOUBLE_EQ(metrics_.MacroAuroc(), (3.0 / 8 + 6.5 / 9 + 3.5 / 5) / 3);
}

// A class that never occurs counts in no mean; of equal scores the first is predicted.
TEST(ClassFigures, OfClassesThatDoNotOccur) {
  const ClassMetrics metrics = MeasureClasses(std::vector<double>{0.4, 0.4, 0.2, 0.1, 0.1, 0.8},
                                              std::vector<int32_t>{0, 0}, 3);
  EXPECT_DOUBLE_EQ(metrics.Accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.BalancedAccuracy(), 0.5);
  EXPECT_TRUE(std::isnan(metrics.classes[1].F1()));
  EXPECT_TRUE(std::isnan(metrics.classes[1].Recall()));
  EXPECT_DOUBLE_EQ(metrics.classes[2].F1(), 0);
  EXPECT_TRUE(std::isnan(metrics.classes[0].auroc));  // there are no others
  EXPECT_TRUE(std::isnan(metrics.MacroAuroc()));
}

TEST(NumberFigures, ByHand) {
  // Errors 1, −2, 0, 1.
  const std::vector<double> predicted = {2, 2, 6, 9}, actual = {1, 4, 6, 8};
  const NumberMetrics metrics = MeasureNumbers(predicted, actual);
  EXPECT_EQ(metrics.count, 4);
  EXPECT_DOUBLE_EQ(metrics.rmse, std::sqrt(6.0 / 4));
  EXPECT_DOUBLE_EQ(metrics.mae, 1);
  // Mean 4.75: squares 14.0625 + 0.5625 + 1.5625 + 10.5625 = 26.75.
  EXPECT_DOUBLE_EQ(metrics.r2, 1 - 6 / 26.75);
  // Predicted mean 4.75: −2.75 −2.75 1.25 4.25, squares 34.75, products 10.3125 + 2.0625 +
  // 1.5625 + 13.8125.
  EXPECT_NEAR(metrics.pearson, 27.75 / std::sqrt(34.75 * 26.75), 1e-12);
  // Ranks 1.5 1.5 3 4 and 1 2 3 4: products of deviations 1.5 + 0.5 + 0.25 + 2.25.
  EXPECT_NEAR(metrics.spearman, 4.5 / std::sqrt(4.5 * 5), 1e-12);
}

TEST(NumberFigures, OfConstants) {
  const NumberMetrics metrics =
      MeasureNumbers(std::vector<double>{3, 3, 3}, std::vector<double>{1, 2, 3});
  EXPECT_TRUE(std::isnan(metrics.pearson));
  EXPECT_TRUE(std::isnan(metrics.spearman));
  EXPECT_DOUBLE_EQ(metrics.mae, 1);
  EXPECT_TRUE(std::isnan(MeasureNumbers(std::vector<double>{1, 2}, std::vector<double>{5, 5}).r2));
}

TEST(NumberFigures, RanksOfTies) {
  EXPECT_EQ(Ranks(std::vector<double>{5, 1, 5, 5, 0}), (std::vector<double>{4, 2, 4, 4, 1}));
  EXPECT_TRUE(Ranks(std::vector<double>{}).empty());
}

}  // namespace
}  // namespace favor::reports
