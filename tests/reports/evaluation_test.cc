#include "reports/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "favor/error.h"
#include "tests/models/small_models.h"
#include "tests/temp_dir.h"

namespace favor::reports {
namespace {

// 200 lines "ab é\n", of 6 bytes, 5 characters and 2 words; by place the last 120 bytes are held
// out: 60 for validation, 60 for the test.
class EvaluationOfText : public testing::Test {
 protected:
  EvaluationOfText() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "ab é\n";
    WriteText(dir_ / "text", text);
    data_ = OpenData(dir_ / "text", {});
    ModelConfig config = SmallConfig();
    config.vocab = data_->vocab();
    config.max_length = 64;
    model_.emplace(config, 1);
  }

  TempDir dir_;
  std::unique_ptr<Dataset> data_;
  std::optional<Model> model_;
  const Context context_{ContextOptions{.threads = 1}};
};

// 59 of the 60 bytes are targets: all but the first, which begins one of the 20 words.
TEST_F(EvaluationOfText, CountsWordsAndCharactersOfTargets) {
  for (const int64_t length : {7, 59, 64}) {
    const Evaluation result =
        Evaluate(*model_, *data_, {.split = Split::kTest, .batch = 2, .length = length}, context_);
    EXPECT_EQ(result.score.count, 59);
    EXPECT_EQ(result.words, 19);
    EXPECT_EQ(result.characters, 49);
    EXPECT_TRUE(result.all);
    EXPECT_EQ(result.most_frequent, 10);  // each of six bytes, one of them nine times
    EXPECT_DOUBLE_EQ(result.WordPerplexity(), std::exp(result.score.loss / 19));
    EXPECT_DOUBLE_EQ(result.BitsPerCharacter(), result.score.loss / std::log(2.0) / 49);
    EXPECT_DOUBLE_EQ(result.TokensPerWord(), 59.0 / 19);
  }
}

// Whole sequences, the same ones whatever the batch.
TEST_F(EvaluationOfText, EndsWithTheSequenceThatReachesTheTargets) {
  const auto evaluate = [&](int64_t batch) {
    return Evaluate(*model_, *data_,
                    {.split = Split::kTest, .batch = batch, .length = 8, .targets = 20}, context_);
  };
  const Evaluation one = evaluate(1);
  EXPECT_GE(one.score.count, 20);
  EXPECT_LT(one.score.count, 28);
  EXPECT_FALSE(one.all);
  for (const int64_t batch : {2, 5, 100}) {
    EXPECT_EQ(evaluate(batch).score.count, one.score.count);
    EXPECT_NEAR(evaluate(batch).score.loss, one.score.loss, 1e-4 * one.score.loss);
  }
}

// 59 targets in windows of 8: eight sequences, in batches of three.
TEST_F(EvaluationOfText, OfAFewBatchesIsASample) {
  const auto evaluate = [&](int64_t batches) {
    return Evaluate(*model_, *data_,
                    {.split = Split::kTest, .batch = 3, .length = 8, .batches = batches}, context_);
  };
  EXPECT_FALSE(evaluate(1).all);
  EXPECT_FALSE(evaluate(2).all);
  EXPECT_TRUE(evaluate(3).all);
  EXPECT_TRUE(evaluate(9).all);
  EXPECT_LE(evaluate(2).score.count, 48);
  EXPECT_EQ(evaluate(3).score.count, 59);
}

// Scores of groups of targets in one pass equal those of each group alone.
TEST_F(EvaluationOfText, GroupsOfTargets) {
  const Batch batch = data_->EvalBatch(Split::kTest, {.index = 0, .batch = 3, .length = 16});
  std::vector<uint8_t> groups(batch.targets.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<uint8_t>(i % 3);
  const std::vector<Score> scores = model_->EvaluateGroups(batch, groups, context_);
  ASSERT_EQ(scores.size(), 3u);
  for (size_t group = 0; group < 3; ++group) {
    Batch alone = batch;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] != group) alone.targets[i] = kNoTarget;
    }
    const Score score = model_->Evaluate(alone, context_);
    EXPECT_EQ(scores[group].count, score.count);
    EXPECT_EQ(scores[group].correct, score.correct);
    EXPECT_NEAR(scores[group].loss, score.loss, 1e-5 * score.loss);
  }
  groups.pop_back();
  EXPECT_THROW(model_->EvaluateGroups(batch, groups, context_), Error);
}

TEST(EvaluationOfMasked, KindsAddUp) {
  const TempDir dir;
  std::string fasta;
  for (int i = 0; i < 60; ++i)
    fasta += ">r" + std::to_string(i) + "\nMKTAYIAKQRQISFVKSHFSRQ" +
             std::string(static_cast<size_t>(1 + i % 7), 'W') + "\n";
  WriteText(dir / "p.fasta", fasta);
  const auto data = OpenData(dir / "p.fasta", {.task = Task::kMasked});
  ModelConfig config = SmallConfig();
  config.causal = false;
  config.vocab = data->vocab();
  config.max_length = 32;
  const Model model(config, 1);
  const Context context({.threads = 1});
  const Evaluation result =
      Evaluate(model, *data, {.split = Split::kTrain, .batch = 4, .length = 32}, context);
  Score sum;
  for (const Score& kind : result.by_masking) {
    EXPECT_GT(kind.count, 0);
    sum += kind;
  }
  EXPECT_EQ(sum.count, result.score.count);
  EXPECT_NEAR(sum.loss, result.score.loss, 1e-9 * sum.loss);
  EXPECT_GT(result.by_masking[0].count, 5 * result.by_masking[1].count);  // 80 % and 10 %
  // By hand: the first is the hidden token, the second the target itself, the third another.
  const Batch batch{.batch = 1, .length = 4, .tokens = {27, 3, 4, 5}, .targets = {1, 3, 5, -1}};
  EXPECT_EQ(Maskings(batch, *data->vocabulary()), (std::vector<uint8_t>{0, 2, 1, 2}));
}

}  // namespace
}  // namespace favor::reports
