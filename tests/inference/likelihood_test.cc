#include "favor/likelihood.h"

#include <gtest/gtest.h>

#include "reports/evaluation.h"
#include "tests/inference/small_trained.h"

namespace favor {
namespace {

class LikelihoodTest : public testing::Test {
 protected:
  LikelihoodTest() { WriteText(dir_ / "p.fasta", SomeProteins()); }

  TrainedModel Trained(Task task = Task::kCausal, Layout layout = Layout::kClip) const {
    RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
    run.task = task;
    run.model.causal = task == Task::kCausal;
    run.format.layout = layout;
    return TrainSmall(run, dir_);
  }

  std::vector<Likelihood> Of(const TrainedModel& trained, const std::string& source,
                             const LikelihoodOptions& options = {}, int64_t window = 0) const {
    const auto reader = OpenRecordsFor(trained, source, window);
    std::vector<Likelihood> all;
    Likelihoods(trained, *reader, options, context_,
                [&](const Likelihood& likelihood) { all.push_back(likelihood); });
    return all;
  }

  // The loss and the targets of an evaluation of a whole file.
  Score EvaluationOf(const TrainedModel& trained, const std::string& source, Layout layout) const {
    DataOptions options{.format = trained.config.format};
    options.format.layout = layout;
    options.format.valid = options.format.test = 0;
    const auto data = OpenData(source, options);
    return reports::Evaluate(trained.model, *data,
                             {.split = Split::kAll, .batch = 3, .length = kTrainedLength}, context_)
        .score;
  }

  static void ExpectSum(const std::vector<Likelihood>& all, const Score& score) {
    double sum = 0;
    int64_t targets = 0;
    for (const Likelihood& likelihood : all) {
      sum += likelihood.sum;
      targets += likelihood.targets;
    }
    EXPECT_EQ(targets, score.count);
    EXPECT_NEAR(-sum / static_cast<double>(targets), score.MeanLoss(), 1e-6);
  }

  TempDir dir_;
  const Context context_{ContextOptions{.threads = 1}};
};

TEST_F(LikelihoodTest, TheSumIsTheLossOfAnEvaluation) {
  const TrainedModel trained = Trained();
  ExpectSum(Of(trained, dir_ / "p.fasta"), EvaluationOf(trained, dir_ / "p.fasta", Layout::kClip));
  ExpectSum(Of(trained, dir_ / "p.fasta", {.layout = Layout::kCrop}),
            EvaluationOf(trained, dir_ / "p.fasta", Layout::kCrop));
}

// Forty records of lengths that differ, sorted inside, come back in their order.
TEST_F(LikelihoodTest, RecordsKeepTheirOrderAndDoNotDependOnEachOther) {
  const TrainedModel trained = Trained();
  const std::vector<Likelihood> all = Of(trained, dir_ / "p.fasta", {.batch = 2});
  ASSERT_EQ(all.size(), 40u);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string letters = RandomSequence(i, 3 + i);
    EXPECT_EQ(all[i].record.name, "p" + std::to_string(i));
    EXPECT_EQ(trained.vocabulary->Decode(all[i].record.tokens), letters);
    WriteText(dir_ / "one.fasta", ">x\n" + letters + "\n");
    const std::vector<Likelihood> alone = Of(trained, dir_ / "one.fasta");
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(alone[0].targets, all[i].targets);
    EXPECT_NEAR(alone[0].sum, all[i].sum, 1e-5);
    EXPECT_DOUBLE_EQ(all[i].Perplexity(),
                     std::exp(-all[i].sum / static_cast<double>(all[i].targets)));
  }
}

// "<begin> a b c" predicts "a b c <end>"; a later piece begins with the token before it.
TEST_F(LikelihoodTest, TokensOfADecoderByHand) {
  const TrainedModel trained = Trained();
  const Tokens letters = trained.vocabulary->Encode(RandomSequence(77, 14), "test");
  WriteText(dir_ / "one.fasta", ">x\n" + RandomSequence(77, 14) + "\n");
  const std::vector<Likelihood> all =
      Of(trained, dir_ / "one.fasta", {.layout = Layout::kCrop, .tokens = true});
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].log_likelihoods.size(), 15u);
  double sum = 0;
  for (int64_t i = 0; i < 15; ++i) {
    const int64_t first = i / 10 * 10;  // of this piece
    Tokens read = {first == 0 ? kBegin : letters[static_cast<size_t>(first - 1)]};
    for (int64_t j = first; j < i; ++j) read.push_back(letters[static_cast<size_t>(j)]);
    const int32_t target = i < 14 ? letters[static_cast<size_t>(i)] : kEnd;
    const double expected =
        LogProbabilityAt(trained.model, read, std::ssize(read) - 1, target, context_);
    EXPECT_EQ(all[0].places[static_cast<size_t>(i)], i);
    EXPECT_NEAR(all[0].log_likelihoods[static_cast<size_t>(i)], expected, 1e-5) << i;
    sum += expected;
  }
  EXPECT_NEAR(all[0].sum, sum, 1e-4);
  EXPECT_EQ(all[0].targets, 15);
}

// Each token hidden alone, or every third at once.
TEST_F(LikelihoodTest, TokensOfAnEncoderByHand) {
  const TrainedModel trained = Trained(Task::kMasked);
  const Tokens letters = trained.vocabulary->Encode(RandomSequence(78, 8), "test");
  WriteText(dir_ / "one.fasta",
            ">x\n" + RandomSequence(78, 8) + "\n>y\n" + RandomSequence(5, 4) + "\n");
  for (const int64_t every : {0, 3}) {
    const std::vector<Likelihood> all =
        Of(trained, dir_ / "one.fasta", {.batch = 3, .every = every, .tokens = true});
    ASSERT_EQ(all.size(), 2u);
    ASSERT_EQ(all[0].log_likelihoods.size(), 8u);
    double sum = 0;
    for (size_t i = 0; i < 8; ++i) {
      Tokens hidden = letters;
      for (size_t j = 0; j < 8; ++j) {
        if (every == 0 ? j == i : j % 3 == i % 3) hidden[j] = kHidden;
      }
      const double expected =
          LogProbabilityAt(trained.model, hidden, static_cast<int64_t>(i), letters[i], context_);
      EXPECT_NEAR(all[0].log_likelihoods[i], expected, 1e-5) << i << ", every " << every;
      EXPECT_EQ(all[0].places[i], static_cast<int64_t>(i));
      sum += expected;
    }
    EXPECT_NEAR(all[0].sum, sum, 1e-4);
    EXPECT_EQ(all[1].targets, 4);
  }
}

// In training an end stood before each record.
TEST_F(LikelihoodTest, RecordsOfAModelOfJoinedRecordsBeginAfterAnEnd) {
  const TrainedModel trained = Trained(Task::kCausal, Layout::kJoin);
  ASSERT_EQ(trained.start, kEnd);
  const Tokens letters = trained.vocabulary->Encode(RandomSequence(79, 12), "test");
  WriteText(dir_ / "one.fasta", ">x\n" + RandomSequence(79, 12) + "\n");
  const std::vector<Likelihood> all = Of(trained, dir_ / "one.fasta", {.tokens = true});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].targets, 13);  // nothing is left out
  EXPECT_NEAR(all[0].log_likelihoods[0],
              LogProbabilityAt(trained.model, {kEnd}, 0, letters[0], context_), 1e-5);
}

// One genome never shows where a record ends: neither its first base nor its end is predicted.
TEST_F(LikelihoodTest, AnEndThatTrainingNeverShowedIsNotPredicted) {
  WriteText(dir_ / "p.fasta", ">genome\n" + RandomSequence(80, 3000) + "\n");
  RunConfig run = SmallTrainedConfig(dir_ / "p.fasta");
  run.format.layout = Layout::kJoin;
  run.format.split_by = SplitRule::kPlace;
  const TrainedModel trained = TrainSmall(run, dir_);
  ASSERT_FALSE(trained.start.has_value());
  const Tokens letters = trained.vocabulary->Encode(RandomSequence(81, 5), "test");
  WriteText(dir_ / "one.fasta", ">x\n" + RandomSequence(81, 5) + "\n>y\nM\n");
  const std::vector<Likelihood> all = Of(trained, dir_ / "one.fasta", {.tokens = true});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].places, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_NEAR(all[0].log_likelihoods[0],
              LogProbabilityAt(trained.model, {letters[0]}, 0, letters[1], context_), 1e-5);
  EXPECT_EQ(all[1].targets, 0);
  EXPECT_TRUE(std::isnan(all[1].Perplexity()));
}

TEST_F(LikelihoodTest, LinesAndWindowsOfText) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i * i) + " of text\n";
  WriteText(dir_ / "t.txt", text);
  const TrainedModel trained = TrainSmall(SmallTrainedConfig(dir_ / "t.txt"), dir_);
  WriteText(dir_ / "new.txt", "ab\n\na line longer than ten bytes");
  // A line follows the end of another, and ends with its own.
  const std::vector<Likelihood> lines = Of(trained, dir_ / "new.txt", {.tokens = true});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].targets, 3);
  EXPECT_EQ(lines[1].targets, 1);
  EXPECT_EQ(lines[2].targets, 29);
  EXPECT_EQ(lines[2].record.name, "3");
  EXPECT_NEAR(lines[0].log_likelihoods[1],
              LogProbabilityAt(trained.model, {'\n', 'a'}, 1, 'b', context_), 1e-5);
  EXPECT_NEAR(lines[1].sum, LogProbabilityAt(trained.model, {'\n'}, 0, '\n', context_), 1e-5);
  // Windows are those of an evaluation.
  const std::vector<Likelihood> windows = Of(trained, dir_ / "new.txt", {}, kTrainedLength);
  ASSERT_EQ(windows.size(), 4u);
  EXPECT_EQ(windows[3].record.name, "30");
  ExpectSum(windows, EvaluationOf(trained, dir_ / "new.txt", Layout::kClip));
}

TEST_F(LikelihoodTest, WorkIsCountedBefore) {
  WriteText(dir_ / "some.fasta", ">a\n" + RandomSequence(1, 25) + "\n>b\n" + RandomSequence(2, 9) +
                                     "\n>c\n" + RandomSequence(3, 10) + "\n");
  const auto count = [&](const TrainedModel& trained, const LikelihoodOptions& options) {
    return CountWork(trained, *OpenRecordsFor(trained, dir_ / "some.fasta"), options);
  };
  const TrainedModel decoder = Trained();  // 26, 10 and 11 targets with their ends
  const LikelihoodWork clipped = count(decoder, {});
  EXPECT_EQ(clipped.records, 3);
  EXPECT_EQ(clipped.sequences, 3);
  EXPECT_EQ(clipped.passes, 3);
  EXPECT_EQ(clipped.targets, 30);
  EXPECT_EQ(clipped.clipped, 2);
  EXPECT_EQ(clipped.left_out, 17);
  const LikelihoodWork cropped = count(decoder, {.layout = Layout::kCrop});
  EXPECT_EQ(cropped.sequences, 6);
  EXPECT_EQ(cropped.targets, 47);
  EXPECT_EQ(cropped.clipped, 0);
  const TrainedModel encoder = Trained(Task::kMasked);
  EXPECT_EQ(count(encoder, {.layout = Layout::kCrop}).passes, 25 + 9 + 10);
  EXPECT_EQ(count(encoder, {.layout = Layout::kCrop, .every = 7}).passes, 7 + 7 + 5 + 7 + 7);
}

TEST_F(LikelihoodTest, TheReaderIsAtTheBeginningAfterCounting) {
  const TrainedModel trained = Trained();
  const auto reader = OpenRecordsFor(trained, dir_ / "p.fasta");
  CountWork(trained, *reader, {});
  Record record;
  ASSERT_TRUE(reader->Next(record));
  EXPECT_EQ(record.name, "p0");
}

TEST_F(LikelihoodTest, RefusesWhatHasNoLikelihood) {
  RunConfig run = SmallTrainedConfig("task:listops,length=16");
  run.task = Task::kClassify;
  run.model.causal = false;
  run.training.length = 0;
  run.training.steps = 1;
  const TrainedModel classifier = TrainSmall(run, dir_);
  EXPECT_THROW(OpenRecordsFor(classifier, dir_ / "p.fasta"), Error);
  const TrainedModel trained = Trained();
  const auto reader = OpenRecordsFor(trained, dir_ / "p.fasta");
  EXPECT_THROW(CountWork(classifier, *reader, {}), Error);
  EXPECT_THROW(CountWork(trained, *reader, {.layout = Layout::kJoin}), Error);
  EXPECT_THROW(classifier.model.Losses({.batch = 1, .length = 2, .tokens = {0, 1}, .targets = {0}},
                                       context_),
               Error);
}

}  // namespace
}  // namespace favor
