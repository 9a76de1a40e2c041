#include "reports/ngram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "favor/random.h"

namespace favor::reports {
namespace {

using Tokens = std::vector<int32_t>;

void AddSequence(const Tokens& tokens, NgramCounts& counts) {
  for (size_t i = 1; i < tokens.size(); ++i) counts.Add(std::span(tokens).first(i), tokens[i]);
}

// Tokens 0, 1, 2; the sequence 0 1 0 1 2, in which all but the first are targets.
class ByHand : public testing::Test {
 protected:
  static NgramModel Model() {
    NgramCounts counts(3, 4);
    AddSequence({0, 1, 0, 1, 2}, counts);
    return NgramModel(std::move(counts));
  }
  const NgramModel model_ = Model();
};

TEST_F(ByHand, OrderOneIsSmoothedByOne) {
  // Targets 1 0 1 2: (c + 1) / (4 + 3).
  EXPECT_DOUBLE_EQ(model_.Probability({}, 0), 2.0 / 7);
  EXPECT_DOUBLE_EQ(model_.Probability({}, 1), 3.0 / 7);
  EXPECT_DOUBLE_EQ(model_.Probability({}, 2), 2.0 / 7);
  EXPECT_EQ(model_.Best({}), 1);
}

TEST_F(ByHand, OrderTwo) {
  // After 0: 1 twice, T = 1. After 1: 0 and 2, T = 2.
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{0}, 0), (0 + 2.0 / 7) / 3);
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{0}, 1), (2 + 3.0 / 7) / 3);
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{1}, 0), (1 + 2 * 2.0 / 7) / 4);
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{1}, 1), (0 + 2 * 3.0 / 7) / 4);
  EXPECT_EQ(model_.Best(Tokens{0}), 1);
  EXPECT_EQ(model_.Best(Tokens{1}), 0);  // as probable as 2, and smaller
}

TEST_F(ByHand, OrderThree) {
  // After 0 1: 0 and 2, T = 2.
  const double below = (1 + 2 * 2.0 / 7) / 4;
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{0, 1}, 2), (1 + 2 * below) / 4);
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{0, 1}, 1), 2 * (2 * 3.0 / 7 / 4) / 4);
  // After 1 0: 1 once, T = 1.
  EXPECT_DOUBLE_EQ(model_.Probability(Tokens{1, 0}, 1), (1 + (2 + 3.0 / 7) / 3) / 2);
}

TEST_F(ByHand, UnseenContextsFallBack) {
  for (const int32_t token : {0, 1, 2}) {
    EXPECT_EQ(model_.Probability(Tokens{2}, token), model_.Probability({}, token));
    EXPECT_EQ(model_.Probability(Tokens{2, 1}, token), model_.Probability(Tokens{1}, token));
    // Only the last three tokens count.
    EXPECT_EQ(model_.Probability(Tokens{2, 2, 1, 0, 1}, token),
              model_.Probability(Tokens{1, 0, 1}, token));
  }
  EXPECT_EQ(model_.Best(Tokens{2, 2}), 1);
}

TEST(Ngram, NothingCountedIsUniform) {
  const NgramModel model(NgramCounts(5, 4));
  EXPECT_DOUBLE_EQ(model.Probability({}, 3), 0.2);
  EXPECT_DOUBLE_EQ(model.Probability(Tokens{1, 2}, 3), 0.2);
  EXPECT_EQ(model.Best(Tokens{4}), 0);
}

// At the start of a sequence histories are short: they count only for lower orders.
TEST(Ngram, ShortContextsCountForLowerOrders) {
  NgramCounts counts(4, 4);
  for (int i = 0; i < 10; ++i) counts.Add(Tokens{0}, 1);
  counts.Add(Tokens{3, 0}, 2);
  const NgramModel model(std::move(counts));
  EXPECT_EQ(model.Best(Tokens{0}), 1);
  // After 3 0 only 2 was seen: once, T = 1. After 0: 1 ten times, 2 once, T = 2.
  const double unigram = 2.0 / 15, bigram = (1 + 2 * unigram) / 13;
  EXPECT_DOUBLE_EQ(model.Probability(Tokens{3, 0}, 2), (1 + bigram) / 2);
}

// After 1 eight tokens were seen once each, and never 0, which is nearly all there is: still the
// best, for 8 · P(0) > 1 + 8 · P(w).
TEST(Ngram, TheBestMayNotFollow) {
  NgramCounts counts(10, 4);
  for (int i = 0; i < 200; ++i) counts.Add(Tokens{0}, 0);
  for (int32_t token = 2; token < 10; ++token) counts.Add(Tokens{1}, token);
  const NgramModel model(std::move(counts));
  EXPECT_DOUBLE_EQ(model.Probability(Tokens{1}, 0), 8 * (201.0 / 218) / 16);
  EXPECT_DOUBLE_EQ(model.Probability(Tokens{1}, 2), (1 + 8 * (2.0 / 218)) / 16);
  EXPECT_EQ(model.Best(Tokens{1}), 0);
}

TEST(Ngram, LargeVocabulariesHaveLowerOrders) {
  EXPECT_EQ(NgramCounts(1 << 16, 8).order(), 4);
  EXPECT_EQ(NgramCounts((1 << 16) + 1, 4).order(), 3);
  EXPECT_EQ(NgramCounts((1 << 21) + 1, 4).order(), 2);
  EXPECT_EQ(NgramCounts(100, 1).order(), 1);
  for (const int32_t vocab : {1 << 16, 1 << 21, 1 << 30}) {
    NgramCounts counts(vocab, 4);
    const int order = counts.order();
    const Tokens context = {vocab - 1, vocab - 2, vocab - 3};
    for (int i = 0; i < 3; ++i) counts.Add(context, vocab - 4);
    const NgramModel model(std::move(counts));
    EXPECT_EQ(model.Best(context), vocab - 4);
    double probability = (3 + 1.0) / (3.0 + vocab);
    for (int i = 1; i < order; ++i) probability = (3 + probability) / 4;
    EXPECT_NEAR(model.Probability(context, vocab - 4), probability, 1e-15);
  }
}

// Small alphabets have up to 8-grams; reducing the order equals counting with the lower one.
TEST(Ngram, SmallAlphabetsHaveHigherOrders) {
  EXPECT_EQ(NgramCounts(32, 9).order(), 8);
  EXPECT_EQ(NgramCounts(33, 9).order(), 4);
  const RandomStream stream(4, "letters");
  Tokens tokens;
  for (uint64_t i = 0; i < 400; ++i)
    tokens.push_back(static_cast<int32_t>(stream.Uniform(i) * 3) + 29);
  NgramCounts high(32, 8), low(32, 5);
  AddSequence(tokens, high);
  AddSequence(tokens, low);
  NgramCounts limited = high;
  limited.Limit(5);
  const NgramModel eight(std::move(high)), five(std::move(low)), fallen(std::move(limited));
  EXPECT_EQ(eight.order(), 8);
  ASSERT_EQ(fallen.order(), 5);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto context = std::span(tokens).first(i);
    EXPECT_DOUBLE_EQ(fallen.Probability(context, tokens[i]), five.Probability(context, tokens[i]));
  }
  // All of the last seven tokens count.
  const Tokens last(tokens.end() - 8, tokens.end() - 1);
  EXPECT_GT(eight.Probability(last, tokens.back()), five.Probability(last, tokens.back()));
}

// Over random sequences of skewed tokens: every distribution sums to 1, and the best is the best of
// all tokens.
TEST(Ngram, IsADistributionWhoseBestIsFound) {
  constexpr int32_t kVocab = 13;
  const RandomStream stream(1, "ngram");
  const auto draw = [&](uint64_t i) {
    const double uniform = stream.Uniform(i);
    return static_cast<int32_t>(uniform * uniform * (kVocab - 1));  // the last token never
  };
  NgramCounts counts(kVocab, 4);
  for (uint64_t sequence = 0; sequence < 40; ++sequence) {
    Tokens tokens;
    for (uint64_t i = 0; i < 25; ++i) tokens.push_back(draw(100 * sequence + i));
    AddSequence(tokens, counts);
  }
  const NgramModel model(std::move(counts));
  for (uint64_t i = 0; i < 2000; ++i) {
    Tokens context;
    for (uint64_t j = 0; j < i % 5; ++j) context.push_back(draw(1000000 + 10 * i + j));
    if (i % 7 == 0 && !context.empty()) context[0] = kVocab - 1;
    double sum = 0, most = -1;
    int32_t best = -1;
    for (int32_t token = 0; token < kVocab; ++token) {
      const double probability = model.Probability(context, token);
      EXPECT_GT(probability, 0);
      sum += probability;
      if (probability > most) {
        most = probability;
        best = token;
      }
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_EQ(model.Best(context), best);
  }
}

}  // namespace
}  // namespace favor::reports
