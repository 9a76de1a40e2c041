// Runs that learn labels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "favor/error.h"
#include "tests/data/fasta_fixture.h"
#include "tests/train/small_run.h"

namespace favor {
namespace {

class LabelRuns : public testing::Test {
 protected:
  LabelRuns() {
    std::string records, classes, others, numbers;
    for (uint64_t i = 0; i < 60; ++i) {
      records += fmt::format(">p{}\n{}\n", i, RandomSequence(i, 9));
      classes += fmt::format("p{}\t{}\n", i, i % 4 == 0 ? "rare" : "usual");
      others += fmt::format("p{}\t{}\n", i, i % 4 == 0 ? "usual" : "very");
      numbers += fmt::format("p{}\t{}\n", i, 100 + i);
    }
    WriteText(dir_ / "p.fasta", records);
    WriteText(dir_ / "classes.tsv", classes);
    WriteText(dir_ / "others.tsv", others);
    WriteText(dir_ / "numbers.tsv", numbers);
  }

  RunConfig Config(const std::string& table, Task task = Task::kClassify) const {
    RunConfig run = SmallRun();
    run.data = dir_ / "p.fasta";
    run.task = task;
    run.format.labels = dir_ / table;
    run.training.length = 9;
    return run;
  }

  TempDir dir_;
  const Context context_{ContextOptions{.threads = 1}};
};

// Of n cases of two classes, those of class c weigh n/(2·n_c): here by hand, in training and in
// evaluations.
TEST_F(LabelRuns, BalancedClasses) {
  RunConfig run = Config("classes.tsv");
  const Trainer equal(run, context_);
  run.training.class_weights = ClassWeights::kBalanced;
  Trainer balanced(run, context_);
  const std::vector<int64_t> counts = balanced.data().ClassCounts();
  const double n = static_cast<double>(counts[0] + counts[1]);
  double loss = 0;
  int64_t cases = 0;
  for (int64_t i = 0; i < balanced.data().Batches(Split::kTrain, 1, 9); ++i) {
    const Batch one =
        balanced.data().EvalBatch(Split::kTrain, {.index = i, .batch = 1, .length = 9});
    loss += n / (2 * static_cast<double>(counts[static_cast<size_t>(one.targets[0])])) *
            equal.model().Evaluate(one, context_).loss;
    ++cases;
  }
  const Score score = balanced.Evaluate(Split::kTrain, 0);
  EXPECT_EQ(score.count, cases);
  EXPECT_NEAR(score.loss, loss, 1e-4 * loss);
  // A class that is never learned from weighs 1.
  WriteText(dir_ / "v.fasta", ">v\nACD\n>w\nAC\n");
  WriteText(dir_ / "with.tsv", "p0\ta\np1\tb\np2\tb\nv\tc\nw\ta\n");
  run.format.labels = dir_ / "with.tsv";
  run.format.valid_data = dir_ / "v.fasta";
  Trainer absent(run, context_);
  EXPECT_TRUE(std::isfinite(absent.Evaluate(Split::kValid, 0).loss));
}

// A run that is stopped in the middle goes on as if nothing had happened.
TEST_F(LabelRuns, ResumedRunsEndWithTheSameWeights) {
  for (const bool numbers : {false, true}) {
    RunConfig run = numbers ? Config("numbers.tsv", Task::kRegress) : Config("classes.tsv");
    if (!numbers) run.training.class_weights = ClassWeights::kBalanced;
    const std::string whole = dir_ / (numbers ? "n1" : "c1"), cut = dir_ / (numbers ? "n2" : "c2");
    Train(run, {.out = whole, .quiet = true}, context_);
    int64_t calls = 0;
    Train(run, {.out = cut, .quiet = true, .stop = [&] { return ++calls > 7; }}, context_);
    Train(run, {.out = cut, .resume = true, .quiet = true}, context_);
    EXPECT_EQ(ReadText(whole + "/last.safetensors"), ReadText(cut + "/last.safetensors"));
    EXPECT_EQ(ReadText(whole + "/labels.tsv"), ReadText(run.format.labels));
    EXPECT_EQ(ReadText(whole + "/log.jsonl").find("perplexity"), std::string::npos);
    EXPECT_EQ(ReadText(whole + "/log.jsonl").find("accuracy") == std::string::npos, numbers);
  }
}

// The output layer belongs to its labels: it is kept for the same ones only.
TEST_F(LabelRuns, OutputsCarryOverToTheSameLabels) {
  Train(Config("classes.tsv"), {.out = dir_ / "first", .quiet = true}, context_);
  const auto start = [&](RunConfig run, const std::string& out) {
    run.init = dir_ / "first";
    run.model.causal = false;
    run.training.steps = 1;
    return Train(run, {.out = dir_ / out, .quiet = true}, context_).start->report;
  };
  EXPECT_TRUE(start(Config("classes.tsv"), "same").drawn.empty());
  const std::vector<std::string> head = {"classifier.weight", "classifier.bias"};
  const StartReport others = start(Config("others.tsv"), "others");
  EXPECT_EQ(others.drawn, head);
  EXPECT_TRUE(others.same_omega);
  const StartReport numbers = start(Config("numbers.tsv", Task::kRegress), "numbers");
  EXPECT_EQ(numbers.drawn, head);
  EXPECT_TRUE(numbers.same_omega);
  RunConfig decoder = Config("classes.tsv");
  decoder.init = dir_ / "first";
  EXPECT_THROW(Train(decoder, {.out = dir_ / "decoder", .quiet = true}, context_), Error);
}

TEST_F(LabelRuns, NumbersOfTheCallersBatches) {
  RunConfig run = SmallRun();
  run.data = "";
  run.task = Task::kRegress;
  run.model.vocab = 7;
  run.model.classes = 1;
  run.model.causal = false;
  run.training.length = 4;
  Trainer trainer(run, context_);
  EXPECT_TRUE(trainer.model().config().numbers);
  const Batch batch{.batch = 2,
                    .length = 4,
                    .tokens = {1, 2, 3, 4, 1, 1, 1, 1},
                    .mask = std::vector<float>(8, 1),
                    .values = {1, -1}};
  const double before = trainer.model().Evaluate(batch, context_).loss;
  for (int i = 0; i < 12; ++i) trainer.Step(std::vector<Batch>{batch});
  EXPECT_LT(trainer.model().Evaluate(batch, context_).loss, before);
  run.model.classes = 2;
  EXPECT_THROW(Trainer(run, context_), Error);
}

TEST_F(LabelRuns, RefusesToWriteOverItsOwnLabels) {
  std::filesystem::create_directory(dir_ / "out");
  std::filesystem::rename(dir_ / "classes.tsv", dir_ / "out/labels.tsv");
  EXPECT_THROW(Train(Config("out/labels.tsv"), {.out = dir_ / "out", .quiet = true}, context_),
               Error);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/config.json"));
}

TEST_F(LabelRuns, CheckpointsSayWhatTheyPredict) {
  Train(Config("classes.tsv"), {.out = dir_ / "run", .quiet = true}, context_);
  EXPECT_EQ(LoadTrained(dir_ / "run").classes, (std::vector<std::string>{"rare", "usual"}));
  Train(Config("numbers.tsv", Task::kRegress), {.out = dir_ / "numbers", .quiet = true}, context_);
  const LabelScale scale = LoadTrained(dir_ / "numbers").scale;
  EXPECT_GT(scale.mean, 110);
  EXPECT_LT(scale.mean, 150);
  EXPECT_GT(scale.deviation, 10);
}

}  // namespace
}  // namespace favor
