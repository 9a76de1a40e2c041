#include "reports/baselines.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "favor/error.h"
#include "favor/random.h"
#include "reports/data_statistics.h"

namespace favor::reports {
namespace {

// Given sequences, all of one length.
class FixedData : public Dataset {
 public:
  struct Rows {
    std::vector<std::vector<int32_t>> tokens, targets;
  };

  FixedData(int64_t vocab, int64_t length, int64_t classes = 0)
      : vocab_(vocab), length_(length), classes_(classes) {}

  Rows& operator[](Split split) { return rows_[static_cast<size_t>(split)]; }
  // The target of each token is the next one.
  void AddText(Split split, std::vector<int32_t> tokens) {
    std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
    tokens.pop_back();
    (*this)[split].tokens.push_back(std::move(tokens));
    (*this)[split].targets.push_back(std::move(targets));
  }

  SplitSummary Summary(Split split) const override {
    return split == Split::kValid ? summary_ : SplitSummary{};
  }
  int64_t vocab() const override { return vocab_; }
  int64_t classes() const override { return classes_; }
  int64_t Length(int64_t) const override { return length_; }
  Batch TrainBatch(const BatchRequest&) const override { return {}; }
  int64_t Batches(Split split, int64_t batch, int64_t) const override {
    return (std::ssize(Of(split).tokens) + batch - 1) / batch;
  }
  Batch EvalBatch(Split split, const BatchRequest& request) const override {
    Batch batch{.length = length_};
    const auto append = [](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const auto first = static_cast<size_t>(request.index * request.batch);
    const Rows& rows = Of(split);
    for (size_t i = first; i < rows.tokens.size(); ++i) {
      if (batch.batch == request.batch) break;
      ++batch.batch;
      append(rows.tokens[i], batch.tokens);
      append(rows.targets[i], batch.targets);
    }
    return batch;
  }

  SplitSummary summary_;

 private:
  const Rows& Of(Split split) const { return rows_[static_cast<size_t>(split)]; }

  int64_t vocab_, length_, classes_;
  std::array<Rows, kSplits> rows_;
};

// The sequences 0 1 0 1 2 and 2 0 1 0 0 for training, 0 1 2 1 0 for evaluation.
FixedData Small() {
  FixedData data(3, 4);
  data.AddText(Split::kTrain, {0, 1, 0, 1, 2});
  data.AddText(Split::kTrain, {2, 0, 1, 0, 0});
  data.AddText(Split::kValid, {0, 1, 2, 1, 0});
  return data;
}

TEST(Baselines, AsByHand) {
  const Baselines result = MeasureBaselines(Small(), {});
  ASSERT_EQ(result.baselines.size(), 5u);
  EXPECT_EQ(result.counted, 8);
  EXPECT_EQ(result.evaluated, 4);
  EXPECT_TRUE(result.all_counted && result.all_evaluated);
  const auto expect = [&](size_t i, const std::string& name, double product, int64_t correct) {
    EXPECT_EQ(result.baselines[i].name, name);
    EXPECT_NEAR(result.baselines[i].score.loss, -std::log(product), 1e-12) << name;
    EXPECT_EQ(result.baselines[i].score.correct, correct) << name;
    EXPECT_EQ(result.baselines[i].score.count, 4) << name;
  };
  expect(0, "uniform", 1.0 / 81, 1);
  // Targets 1 0 1 2 and 0 1 0 0: of 8, 0 four times, 1 three times, 2 once. Evaluated: 1 2 1 0.
  const double p0 = 5.0 / 11, p1 = 4.0 / 11, p2 = 2.0 / 11;
  expect(1, "empirical", p1 * p2 * p1 * p0, 1);
  // After 0: 1 three times, 0 once. After 1: 0 twice, 2 once. After 2: 0 once.
  const double after0_1 = (3 + 2 * p1) / 6, after1_2 = (1 + 2 * p2) / 5, after2_1 = p1 / 2,
               after1_0 = (2 + 2 * p0) / 5;
  expect(2, "2-gram", after0_1 * after1_2 * after2_1 * after1_0, 2);
  // After 0 1: 0 twice, 2 once. Neither 1 2 nor 2 1 was seen; the first has one token before it.
  expect(3, "3-gram", after0_1 * ((1 + 2 * after1_2) / 5) * after2_1 * after1_0, 2);
  ASSERT_EQ(result.frequencies.size(), 3u);
  EXPECT_EQ(result.frequencies[0].target, 0);
  EXPECT_EQ(result.frequencies[0].count, 4);
  EXPECT_EQ(result.frequencies[2].target, 2);
}

TEST(Baselines, WhatIsNotAskedDoesNotCount) {
  FixedData data = Small();
  data[Split::kTrain].targets[0] = {kNoTarget, kNoTarget, kNoTarget, 2};
  data[Split::kValid].targets[0] = {kNoTarget, 2, kNoTarget, kNoTarget};
  const Baselines result = MeasureBaselines(data, {});
  EXPECT_EQ(result.counted, 5);
  EXPECT_EQ(result.evaluated, 1);
  const double p2 = 2.0 / 8, after1_2 = (1 + 2 * p2) / 4;  // after 1: 2 and 0 once
  EXPECT_NEAR(result.baselines[1].score.loss, -std::log(p2), 1e-12);
  EXPECT_NEAR(result.baselines[2].score.loss, -std::log(after1_2), 1e-12);
}

TEST(Baselines, CountNoMoreThanAsked) {
  // Whole sequences: the first that reaches the number is the last.
  FixedData two = Small();
  two.AddText(Split::kValid, {0, 0, 0, 0, 0});
  const Baselines result = MeasureBaselines(two, {.most_tokens = 3, .eval_tokens = 3});
  EXPECT_EQ(result.counted, 4);
  EXPECT_EQ(result.evaluated, 4);
  EXPECT_FALSE(result.all_counted || result.all_evaluated);
  const Baselines all = MeasureBaselines(Small(), {.most_tokens = 8, .eval_tokens = 4});
  EXPECT_TRUE(all.all_counted && all.all_evaluated);
}

// Only the token shown in the place of a masked one is used: counted is how often each letter was
// the target of the shown tokens 0, 1, 2 and 3, the hidden one.
TEST(Baselines, OfMaskedTokensLooksAtTheShownOne) {
  FixedData data(4, 4);
  data[Split::kTrain] = {.tokens = {{3, 3, 0, 1}, {3, 2, 0, 0}},
                         .targets = {{0, 1, 0, kNoTarget}, {0, 2, 0, 1}}};
  data[Split::kValid] = {.tokens = {{3, 2, 0, 0}}, .targets = {{0, 1, 0, kNoTarget}}};
  const Baselines result = MeasureBaselines(data, {.task = Task::kMasked});
  ASSERT_EQ(result.baselines.size(), 3u);
  // 7 targets: 0 four times, 1 twice, 2 once; smoothing covers all four tokens of the vocabulary.
  const double p0 = 5.0 / 11, p1 = 3.0 / 11;
  EXPECT_NEAR(result.baselines[1].score.loss, -std::log(p0 * p1 * p0), 1e-12);
  EXPECT_EQ(result.baselines[2].name, "shown token");
  // Given 3: 0 twice and 1. Given 2: 2. Given 0: 0 twice and 1.
  const double behind3_0 = (2 + 2 * p0) / 5, behind2_1 = p1 / 2, behind0_0 = (2 + 2 * p0) / 5;
  EXPECT_NEAR(result.baselines[2].score.loss, -std::log(behind3_0 * behind2_1 * behind0_0), 1e-12);
  // Three of the tokens occur as targets: guessing is among these.
  EXPECT_NEAR(result.baselines[0].score.loss, 3 * std::log(3.0), 1e-12);
}

// 4·10⁶ n-grams of four letters: 4¹¹ < 1.6·10⁷; of twenty letters 20⁵ < 1.6·10⁷ < 20⁶.
TEST(Baselines, OrdersThatTargetsSufficeFor) {
  EXPECT_EQ(OrderFor(19, 4'000'000, 4), 8);
  EXPECT_EQ(OrderFor(29, 4'000'000, 20), 5);
  EXPECT_EQ(OrderFor(29, 1000, 20), 4);
  EXPECT_EQ(OrderFor(258, 4'000'000, 20), 4);
}

TEST(Baselines, ClassesHaveNoContext) {
  FixedData data(5, 3, /*classes=*/2);
  for (const int32_t label : {1, 1, 0}) {
    data[Split::kTrain].tokens.push_back({4, 4, 4});
    data[Split::kTrain].targets.push_back({label});
  }
  data[Split::kValid] = data[Split::kTrain];
  const Baselines result = MeasureBaselines(data, {});
  ASSERT_EQ(result.baselines.size(), 2u);
  EXPECT_EQ(result.baselines[1].name, "most frequent");
  EXPECT_EQ(result.baselines[1].score.correct, 2);
  EXPECT_NEAR(result.baselines[1].score.loss, -2 * std::log(3.0 / 5) - std::log(2.0 / 5), 1e-12);
  EXPECT_NEAR(result.baselines[0].score.loss, 3 * std::log(2.0), 1e-12);
}

TEST(Baselines, ASplitWithoutTargetsIsRefused) {
  EXPECT_THROW(MeasureBaselines(Small(), {.split = Split::kTest}), Error);
}

// A chain in which each token depends on the two before it.
TEST(Baselines, LearnAMarkovChain) {
  constexpr int64_t kVocab = 5, kLength = 1000;
  const RandomStream stream(3, "chain");
  std::array<std::array<std::array<double, kVocab>, kVocab>, kVocab> next{};
  uint64_t drawn = 0;
  for (auto& first : next) {
    for (auto& second : first) {
      double sum = 0;
      for (double& p : second) sum += p = -std::log(stream.Uniform(drawn++) + 1e-12);
      for (double& p : second) p /= sum;
    }
  }
  FixedData data(kVocab, kLength);
  double entropy =
      0;  // entropy of the evaluated targets; all except the first have two tokens before
  for (int row = 0; row < 300; ++row) {
    const Split split = row < 200 ? Split::kTrain : Split::kValid;
    std::vector<int32_t> tokens = {0, 0};
    while (std::ssize(tokens) < kLength + 1) {
      const auto& p =
          next[static_cast<size_t>(tokens.end()[-2])][static_cast<size_t>(tokens.back())];
      double left = stream.Uniform(drawn++);
      size_t token = 0;
      while (token + 1 < kVocab && left >= p[token]) left -= p[token++];
      if (split == Split::kValid) {
        for (const double each : p) entropy -= each * std::log(each);
      }
      tokens.push_back(static_cast<int32_t>(token));
    }
    data.AddText(split, tokens);
  }
  const Baselines result = MeasureBaselines(data, {});
  entropy /= 100 * (kLength - 1);
  ASSERT_EQ(result.evaluated, 100 * kLength);
  const double bigram = result.baselines[2].score.MeanLoss(),
               trigram = result.baselines[3].score.MeanLoss();
  // 100,000 targets whose surprise deviates by less than 1: five standard errors are 0.016 nats;
  // what 200,000 targets do not teach of 100 free parameters is 1/4000.
  EXPECT_NEAR(trigram, entropy, 0.016);
  EXPECT_GT(bigram, entropy + 0.1);
}

TEST(DataStatistics, TablesAndJsonSayTheSame) {
  FixedData data = Small();
  data.summary_ = {.records = 1, .tokens = 5, .words = 2, .characters = 4, .lengths = {{5, 1}}};
  const DataStatistics statistics = GatherStatistics(data, {}, 0, BaselineOptions{});
  const Table lengths = LengthsTable(statistics), frequencies = FrequenciesTable(statistics, 2),
              baselines = BaselinesTable(statistics);
  ASSERT_EQ(lengths.rows.size(), 1u);
  EXPECT_EQ(lengths.rows[0],
            (std::vector<std::string>{"valid", "1", "5", "2", "4", "2.500", "1.250"}));
  ASSERT_EQ(frequencies.rows.size(), 2u);
  EXPECT_EQ(frequencies.rows[0], (std::vector<std::string>{"0", "4", "50.000"}));
  ASSERT_EQ(baselines.rows.size(), 5u);
  // log₂ 3 bits per token, 2.5 tokens per word, 1.25 per character.
  EXPECT_EQ(baselines.rows[0], (std::vector<std::string>{"uniform", "25.00", "3.000", "1.5850",
                                                         "1.0986", "15.5885", "1.9812"}));
  const auto json = ToJson(statistics);
  EXPECT_EQ(json["splits"]["valid"]["tokens_per_word"], 2.5);
  EXPECT_FALSE(json["splits"].contains("train"));
  EXPECT_EQ(json["targets"]["counted"], 8);
  EXPECT_EQ(json["targets"]["frequencies"].size(), 3u);
  const auto& uniform = json["baselines"]["models"][0];
  EXPECT_NEAR(uniform["word_perplexity"].get<double>(), std::pow(3, 2.5), 1e-9);
  EXPECT_NEAR(uniform["bits_per_character"].get<double>(), 1.25 * std::log2(3), 1e-12);
  EXPECT_FALSE(ToJson(GatherStatistics(data, {}, 0, {})).contains("baselines"));
}

}  // namespace
}  // namespace favor::reports
