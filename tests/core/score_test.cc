#include "favor/score.h"

#include <gtest/gtest.h>

#include <cmath>

namespace favor {
namespace {

// Eight equally likely answers: ln 8 = 2.0794 nats per target, 3 bits, a perplexity of 8.
TEST(Score, SaysTheSameInNatsBitsAndPerplexity) {
  const Score score{.loss = 5 * 2.0794415416798357, .correct = 1, .count = 5};
  EXPECT_NEAR(score.MeanLoss(), 2.0794415416798357, 1e-15);
  EXPECT_NEAR(score.BitsPerToken(), 3, 1e-14);
  EXPECT_NEAR(score.Perplexity(), 8, 1e-13);
  EXPECT_DOUBLE_EQ(score.Accuracy(), 0.2);
}

TEST(Score, SumsOverTargets) {
  Score score{.loss = 1, .correct = 1, .count = 2};
  score += {.loss = 8, .correct = 0, .count = 4};
  EXPECT_DOUBLE_EQ(score.MeanLoss(), 1.5);
  EXPECT_DOUBLE_EQ(score.Accuracy(), 1.0 / 6);
  EXPECT_TRUE(std::isnan(Score{}.MeanLoss()));
}

}  // namespace
}  // namespace favor
