// Runs that start from the weights of another model.
#include "train/start.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/access.h"
#include "favor/train.h"
#include "tests/temp_dir.h"
#include "tests/train/small_run.h"

namespace favor {
namespace {

class StartTest : public testing::Test {
 protected:
  // Values of all parameters by name.
  static std::map<std::string, std::vector<float>> Values(Model& model) {
    std::map<std::string, std::vector<float>> values;
    for (const auto& [name, value] : model.Parameters())
      values[name].assign(value.Data<float>(), value.Data<float>() + value.shape().Elements());
    return values;
  }

  const Context context_{ContextOptions{.threads = 1}};
  TempDir dir_;
};

// The paper's way: weights of exact attention in a model of linear attention.
TEST_F(StartTest, AttentionMayChange) {
  RunConfig run = SmallRun();
  run.model.attention = "exact";
  Trainer exact(run, context_);
  for (int i = 0; i < 3; ++i) exact.Step();
  run.model.attention = "linear";
  run.training.seed = 5;
  Trainer linear(run, context_);
  const StartReport report = linear.StartFrom(exact.model());
  EXPECT_TRUE(report.drawn.empty());
  EXPECT_TRUE(report.unused.empty());
  EXPECT_FALSE(report.same_omega);
  EXPECT_EQ(Values(linear.model()), Values(exact.model()));
  EXPECT_EQ(internal::Inside(linear.model()).seed(), 5u);  // of its own ω
  run.model.features.map = "relu";
  run.training.seed = 6;
  Trainer relu(run, context_);
  EXPECT_FALSE(relu.StartFrom(linear.model()).same_omega);
  EXPECT_EQ(internal::Inside(relu.model()).seed(), 6u);
  EXPECT_NO_THROW(linear.Step());
}

TEST_F(StartTest, NewParametersAreDrawnAndOthersLeftOut) {
  RunConfig run = SmallRun();
  Trainer plain(run, context_);
  for (int i = 0; i < 3; ++i) plain.Step();
  RunConfig more = run;
  more.model.decay = Decay::kToken;
  more.model.convolution = 3;
  more.training.seed = 9;
  Trainer forgetting(more, context_), untouched(more, context_);
  const StartReport report = forgetting.StartFrom(plain.model());
  EXPECT_FALSE(report.drawn.empty());
  EXPECT_TRUE(report.unused.empty());
  auto now = Values(forgetting.model()), first = Values(untouched.model()),
       from = Values(plain.model());
  for (const auto& [name, value] : now)
    EXPECT_EQ(value, from.contains(name) ? from[name] : first[name]) << name;
  for (const std::string& name : report.drawn) EXPECT_FALSE(from.contains(name)) << name;
  // And back: what the plain model does not have is left out.
  Trainer back(run, context_);
  EXPECT_EQ(back.StartFrom(forgetting.model()).unused.size(), report.drawn.size());
}

TEST_F(StartTest, OtherShapesAreRefusedAndNothingChanges) {
  Trainer small(SmallRun(), context_);
  RunConfig wide = SmallRun();
  wide.model.ff = 32;
  Trainer other(wide, context_);
  const auto before = Values(other.model());
  try {
    other.StartFrom(small.model());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layers.0.feed_forward"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(Values(other.model()), before);
}

// Layers of another task's output are new; the rest carries over.
TEST_F(StartTest, AnotherNumberOfClassesIsAnotherLayer) {
  ModelConfig config;
  config.causal = false;
  config.vocab = 9;
  config.width = 16;
  config.heads = 2;
  config.ff = 24;
  config.positions = Positions::kRotary;
  ModelConfig three = config, four = config;
  three.classes = 3;
  four.classes = 4;
  Model language(config, 1), first(three, 2), second(four, 3);
  models::Network& to = internal::Inside(second);
  for (const Model* from : {&language, &first}) {
    const StartReport report = train::CarryOver(internal::Inside(*from), to, true, context_);
    EXPECT_EQ(report.drawn, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
    EXPECT_TRUE(report.same_omega);
    EXPECT_EQ(to.seed(), internal::Inside(*from).seed());
  }
  EXPECT_EQ(Values(second).at("embedding.weight"), Values(first).at("embedding.weight"));
}

// Without a limit on the norm, the other weights learn as if nothing were frozen.
TEST_F(StartTest, FrozenLayersKeepTheirWeights) {
  RunConfig run = SmallRun();
  run.training.clip = 0;
  run.model.layers = 2;
  for (const bool tied : {false, true}) {
    run.model.tied = tied;
    run.training.recompute = tied;
    run.training.freeze = 0;
    Trainer all(run, context_);
    const auto first = Values(all.model());
    run.training.freeze = 1;
    Trainer some(run, context_);
    all.Step();
    some.Step();
    const auto learned = Values(all.model()), now = Values(some.model());
    int frozen = 0;
    for (const auto& [name, value] : now) {
      const bool kept = name.starts_with("embedding.") || name.starts_with("positions.") ||
                        name.starts_with("layers.0.");
      frozen += kept ? 1 : 0;
      EXPECT_EQ(value, kept ? first.at(name) : learned.at(name)) << name;
      EXPECT_NE(learned.at(name), first.at(name)) << name;
    }
    EXPECT_GT(frozen, 5);
  }
  run.training.freeze = 3;
  EXPECT_THROW(Trainer(run, context_), Error);
  run.training.freeze = 2;
  run.model.tied = true;
  run.model.norm = Norm::kPost;
  EXPECT_THROW(Trainer(run, context_), Error);  // nothing is left to learn
}

// Nothing is computed for them: their gradients are 0.
TEST_F(StartTest, FrozenLayersHaveNoGradients) {
  RunConfig run = SmallRun();
  run.training.freeze = 1;
  Trainer trainer(run, context_);
  const std::vector<Batch> batches = {trainer.data().TrainBatch(
      {.index = 0, .batch = 4, .length = trainer.config().training.length})};
  trainer.AddGradients(batches, trainer.CountTargets(batches));
  const float* gradients = trainer.Gradients().Data<float>();
  int64_t at = 0;
  for (const auto& [name, value] : trainer.model().Parameters()) {
    const int64_t count = value.shape().Elements();
    const bool frozen = name.starts_with("embedding.") || name.starts_with("positions.") ||
                        name.starts_with("layers.0.");
    EXPECT_EQ(std::all_of(gradients + at, gradients + at + count, [](float g) { return g == 0; }),
              frozen)
        << name;
    at += (count + 15) / 16 * 16;  // each begins at a multiple of 64 bytes
  }
}

TEST_F(StartTest, TheOrderOfTheDataContinues) {
  RunConfig run = SmallRun();
  run.training.accumulate = 2;
  run.training.dropout = 0;
  Trainer plain(run, context_);
  std::vector<Batch> batches;
  for (const int64_t index : {7, 8})
    batches.push_back(plain.data().TrainBatch(
        {.index = index, .batch = 4, .length = plain.config().training.length}));
  run.training.first_batch = 7;
  Trainer later(run, context_);
  EXPECT_EQ(later.Step().loss, plain.Step(batches).loss);
}

class InitTest : public StartTest {
 protected:
  InitTest() {
    RunConfig run = SmallRun();
    run.model.attention = "exact";
    Train(run, {.out = dir_ / "first", .quiet = true}, context_);
  }
  RunConfig Tuned() const {
    RunConfig run = SmallRun();
    run.init = dir_ / "first";
    return run;
  }
};

TEST_F(InitTest, LossesBeforeAndAfterAreStated) {
  const TrainResult result = Train(Tuned(), {.out = dir_ / "tuned", .quiet = true}, context_);
  ASSERT_TRUE(result.start.has_value());
  ASSERT_TRUE(result.start->own.has_value());
  const TrainedModel first = LoadTrained(dir_ / "first");
  Score own;
  const auto data = OpenDataOf(first);
  for (int64_t i = 0; i < 2; ++i) {
    own += first.model.Evaluate(
        data->EvalBatch(Split::kValid,
                        {.index = i, .batch = 4, .length = first.config.training.length}),
        context_);
  }
  EXPECT_DOUBLE_EQ(result.start->own->MeanLoss(), own.MeanLoss());
  // The same weights with linear attention, before any step.
  RunConfig run = SmallRun();
  Trainer linear(run, context_);
  linear.StartFrom(first.model);
  EXPECT_DOUBLE_EQ(result.start->valid.MeanLoss(), linear.Evaluate(Split::kValid, 2).MeanLoss());
  EXPECT_NE(ReadText(dir_ / "tuned/log.jsonl").find("\"step\":0,\"split\":\"valid\""),
            std::string::npos);
}

// Stopped before its first step and resumed when the first run is gone: the same files.
TEST_F(InitTest, AStoppedRunContinuesWithoutWhatItStartedFrom) {
  const TrainResult whole = Train(Tuned(), {.out = dir_ / "whole", .quiet = true}, context_);
  int calls = 0;
  for (const int stop : {1, 7}) {
    const std::string out = dir_ / fmt::format("stopped{}", stop);
    calls = 0;
    Train(Tuned(), {.out = out, .quiet = true, .stop = [&] { return ++calls == stop; }}, context_);
    std::filesystem::rename(dir_ / "first", dir_ / "elsewhere");
    const TrainResult rest = Train(Tuned(), {.out = out, .resume = true, .quiet = true}, context_);
    std::filesystem::rename(dir_ / "elsewhere", dir_ / "first");
    EXPECT_EQ(rest.best_loss, whole.best_loss);
    for (const std::string name : {"last.safetensors", "best.safetensors", "config.json"})
      EXPECT_EQ(ReadText(out + "/" + name), ReadText(dir_ / ("whole/" + name))) << name;
  }
}

// An evaluation of the start that was done is not done again: patience is not used up.
TEST_F(InitTest, TheStartIsEvaluatedOnce) {
  RunConfig run = Tuned();
  run.training.patience = 1;
  run.training.learning_rate = 0;
  run.training.eval_every = 0;
  int calls = 0;
  const TrainOptions stopping{
      .out = dir_ / "stopped", .quiet = true, .stop = [&] { return ++calls == 1; }};
  EXPECT_TRUE(Train(run, stopping, context_).start.has_value());
  const TrainResult rest =
      Train(run, {.out = dir_ / "stopped", .resume = true, .quiet = true}, context_);
  EXPECT_EQ(rest.steps, 12);
  EXPECT_FALSE(rest.start.has_value());
  const std::string log = ReadText(dir_ / "stopped/log.jsonl");
  EXPECT_EQ(log.find("\"step\":0,"), log.rfind("\"step\":0,"));
}

// A run that continues another's order of the data needs that data.
TEST_F(InitTest, OtherDataIsNotContinued) {
  RunConfig run = Tuned();
  run.model.positions = Positions::kRotary;
  run.data = "task:copy,length=6,symbols=5";
  run.training.first_batch = 3;
  EXPECT_NO_THROW(Train(run, {.out = dir_ / "same", .quiet = true}, context_));
  run.data = "task:copy,length=4,symbols=5";
  EXPECT_THROW(Train(run, {.out = dir_ / "other", .quiet = true}, context_), Error);
  run.training.first_batch = 0;
  EXPECT_NO_THROW(Train(run, {.out = dir_ / "other", .quiet = true}, context_));
}

TEST_F(InitTest, WhatDoesNotFitIsRefusedBeforeTheFolderExists) {
  const auto expect = [&](const RunConfig& run, const std::string& says) {
    try {
      Train(run, {.out = dir_ / "bad", .quiet = true}, context_);
      ADD_FAILURE() << "expected: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
    EXPECT_FALSE(std::filesystem::exists(dir_ / "bad"));
  };
  RunConfig run = Tuned();
  run.init = dir_ / "nowhere";
  expect(run, "nowhere");
  run = Tuned();
  run.model.width = 32;
  expect(run, "embedding.weight is");
  run = Tuned();
  run.data = "task:recall,pairs=4";
  expect(run, "init");
}

}  // namespace
}  // namespace favor
