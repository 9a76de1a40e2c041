#include "favor/prediction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "favor/likelihood.h"
#include "tests/inference/small_trained.h"

namespace favor {
namespace {

// Proteins of p0 … p39; those of even numbers have classes, numbers or labels of tokens.
class PredictionTest : public testing::Test {
 protected:
  PredictionTest() { WriteText(dir_ / "p.fasta", SomeProteins()); }

  TrainedModel Trained(Task task, LabelOf label_of = LabelOf::kSequence) const {
    std::string table;
    for (uint64_t i = 0; i < 40; i += 2) {
      const std::string letters = RandomSequence(i, 3 + i);
      std::string label = i % 4 == 0 ? "x" : "y";
      if (task == Task::kRegress) label = fmt::format("{}", 10 + i);
      if (label_of == LabelOf::kToken) {
        label.clear();
        for (const char letter : letters) label += letter < 'L' ? 'l' : 'h';
      }
      table += fmt::format("p{}\t{}\n", i, label);
    }
    WriteText(dir_ / "labels.tsv", table);
    RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
    run.task = task;
    run.format.labels = dir_ / "labels.tsv";
    run.format.label_of = label_of;
    return TrainSmall(run, dir_);
  }

  std::vector<Prediction> Of(const TrainedModel& trained,
                             const PredictOptions& options = {}) const {
    const auto reader = OpenRecordsFor(trained, dir_ / "p.fasta");
    std::vector<Prediction> all;
    Predict(trained, *reader, options, context_, [&](const Prediction& prediction) {
      all.push_back({prediction.record, Tensor(prediction.outputs.shape())});
      Copy(prediction.outputs.view(), all.back().outputs.view());
    });
    return all;
  }

  // Logits of one record alone, of which at most `length` tokens are read.
  Tensor LogitsOf(const TrainedModel& trained, Tokens tokens, size_t length) const {
    if (tokens.size() > length) tokens.resize(length);
    const auto count = std::ssize(tokens);
    return trained.model.Logits({.batch = 1,
                                 .length = count,
                                 .tokens = tokens,
                                 .mask = std::vector<float>(tokens.size(), 1)},
                                context_);
  }

  TempDir dir_;
  const Context context_{ContextOptions{.threads = 1}};
};

TEST_F(PredictionTest, ProbabilitiesOfClasses) {
  const TrainedModel trained = Trained(Task::kClassify);
  EXPECT_EQ(trained.classes, (std::vector<std::string>{"x", "y"}));
  for (const int64_t batch : {1, 3, 100}) {
    const std::vector<Prediction> all = Of(trained, {.batch = batch});
    ASSERT_EQ(all.size(), 40u);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].record.name, fmt::format("p{}", i));
      ASSERT_EQ(all[i].outputs.shape(), (Shape{1, 2}));
      const float* found = all[i].outputs.Data<float>();
      EXPECT_NEAR(found[0] + found[1], 1, 1e-6);
      const Tensor logits = LogitsOf(trained, all[i].record.tokens, kTrainedLength);
      const double difference = static_cast<double>(logits.Data<float>()[0]) -
                                static_cast<double>(logits.Data<float>()[1]);
      EXPECT_NEAR(found[0], 1 / (1 + std::exp(-difference)), 1e-5) << i;
    }
  }
  // A longer length reads more of long records, and the same of short ones.
  const std::vector<Prediction> longer = Of(trained, {.length = 40}), usual = Of(trained);
  EXPECT_NEAR(longer[3].outputs.Data<float>()[0], usual[3].outputs.Data<float>()[0], 1e-5);
  EXPECT_NE(longer[39].outputs.Data<float>()[0], usual[39].outputs.Data<float>()[0]);
}

TEST_F(PredictionTest, NumbersInTheUnitsOfTheLabels) {
  const TrainedModel trained = Trained(Task::kRegress);
  EXPECT_GT(trained.scale.deviation, 5);
  EXPECT_GT(trained.scale.mean, 20);
  const std::vector<Prediction> all = Of(trained);
  for (const size_t i : {size_t{0}, size_t{20}}) {
    ASSERT_EQ(all[i].outputs.shape(), (Shape{1, 1}));
    const Tensor logits = LogitsOf(trained, all[i].record.tokens, kTrainedLength);
    EXPECT_NEAR(
        all[i].outputs.Data<float>()[0],
        static_cast<double>(logits.Data<float>()[0]) * trained.scale.deviation + trained.scale.mean,
        1e-3);
  }
}

TEST_F(PredictionTest, LabelsOfTokens) {
  const TrainedModel trained = Trained(Task::kClassify, LabelOf::kToken);
  EXPECT_EQ(trained.classes, (std::vector<std::string>{"h", "l"}));
  const std::vector<Prediction> all = Of(trained);
  for (const size_t i : {size_t{0}, size_t{3}, size_t{30}}) {
    const int64_t count = std::min<int64_t>(kTrainedLength, 3 + static_cast<int64_t>(i));
    ASSERT_EQ(all[i].outputs.shape(), (Shape{count, 2}));
    const Tensor logits = LogitsOf(trained, all[i].record.tokens, kTrainedLength);
    for (int64_t at = 0; at < count; ++at) {
      EXPECT_NEAR(std::log(static_cast<double>(all[i].outputs.Data<float>()[2 * at])),
                  LogProbability(logits.Data<float>() + 2 * at, 2, 0), 1e-4);
    }
  }
}

// Decoders read a begin token first, which has no output.
TEST_F(PredictionTest, OfADecoder) {
  RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
  TrainSmall(run, dir_);
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "language.safetensors");
  std::string table;
  for (uint64_t i = 0; i < 40; ++i)
    table += fmt::format("p{}\t{}\n", i, std::string(3 + i, i % 2 == 0 ? 'a' : 'b'));
  WriteText(dir_ / "labels.tsv", table);
  run.init = dir_ / "language.safetensors";
  run.task = Task::kClassify;
  run.format.labels = dir_ / "labels.tsv";
  run.format.label_of = LabelOf::kToken;
  const TrainedModel trained = TrainSmall(run, dir_);
  EXPECT_TRUE(trained.model.config().causal);
  const std::vector<Prediction> all = Of(trained);
  ASSERT_EQ(all[1].outputs.shape(), (Shape{4, 2}));
  ASSERT_EQ(all[30].outputs.shape(), (Shape{kTrainedLength - 1, 2}));
  Tokens tokens = all[1].record.tokens;
  tokens.insert(tokens.begin(), kBegin);
  const Tensor logits = LogitsOf(trained, tokens, kTrainedLength);
  for (int64_t at = 0; at < 4; ++at) {
    EXPECT_NEAR(std::log(static_cast<double>(all[1].outputs.Data<float>()[2 * at])),
                LogProbability(logits.Data<float>() + 2 * (at + 1), 2, 0), 1e-4);
  }
}

// A decoder's mean is over what a record holds, whoever shares its batch.
TEST_F(PredictionTest, OfSequencesByADecoder) {
  RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
  TrainSmall(run, dir_);
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "language.safetensors");
  std::string table;
  for (uint64_t i = 0; i < 40; ++i) table += fmt::format("p{}\t{}\n", i, i % 2 == 0 ? 'a' : 'b');
  WriteText(dir_ / "labels.tsv", table);
  run.init = dir_ / "language.safetensors";
  run.task = Task::kClassify;
  run.format.labels = dir_ / "labels.tsv";
  const TrainedModel trained = TrainSmall(run, dir_);
  ASSERT_TRUE(trained.model.config().causal);
  const std::vector<Prediction> alone = Of(trained, {.batch = 1}),
                                together = Of(trained, {.batch = 8});
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(alone[i].outputs.Data<float>()[0], together[i].outputs.Data<float>()[0], 1e-5);
    Tokens tokens = alone[i].record.tokens;
    tokens.insert(tokens.begin(), kBegin);
    const Tensor logits = LogitsOf(trained, tokens, kTrainedLength);
    EXPECT_NEAR(std::log(static_cast<double>(alone[i].outputs.Data<float>()[0])),
                LogProbability(logits.Data<float>(), 2, 0), 1e-4);
  }
}

TEST_F(PredictionTest, RefusesModelsOfTokens) {
  const TrainedModel trained = TrainSmall(SmallTrainedConfig(dir_ / "p.fasta"), dir_);
  const auto reader = OpenRecordsFor(trained, dir_ / "p.fasta");
  EXPECT_THROW(Predict(trained, *reader, {}, context_, [](const Prediction&) {}), Error);
}

}  // namespace
}  // namespace favor
