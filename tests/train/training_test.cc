// Training: schedules, AdamW, learning, and runs that are the same bit for bit whatever happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/access.h"
#include "favor/favor.h"
#include "io/safetensors.h"
#include "models/network.h"
#include "tests/temp_dir.h"
#include "tests/train/small_run.h"
#include "train/adamw.h"
#include "train/schedule.h"

namespace favor {
namespace {

// A checkpoint with one number that is not finite, in a weight or a moment, changes nothing.
TEST(Trainer, RefusedCheckpointsChangeNothing) {
  const Context context({.threads = 1});
  const TempDir dir;
  Trainer source(SmallRun(), context);
  for (int i = 0; i < 4; ++i) source.Step();
  source.Save(dir / "good");
  const std::string bytes = ReadText(dir / "good");
  Trainer trainer(SmallRun(), context), twin(SmallRun(), context);
  trainer.Step();
  twin.Step();
  for (const char* name :
       {"norm.weight", "optimizer.first.embedding.weight", "optimizer.second.norm.bias"}) {
    io::Safetensors file = io::ParseSafetensors(std::as_bytes(std::span(bytes)), "file");
    file.metadata.erase("checksum");
    std::vector<float> values = file.entries.at(name).Values<float>("file");
    values.back() = std::numeric_limits<float>::quiet_NaN();
    file.entries[name].data = std::as_bytes(std::span(values));
    io::WriteSafetensors(dir / "bad", file);
    EXPECT_THROW(trainer.Load(dir / "bad"), Error) << name;
  }
  EXPECT_EQ(trainer.step(), 1);
  trainer.Save(dir / "a");
  twin.Save(dir / "b");
  EXPECT_EQ(ReadText(dir / "a"), ReadText(dir / "b"));
}

// Weights keep the ω that they were learned with, also after it was drawn anew, and so do later
// checkpoints.
TEST(Trainer, StartsFromAnotherModelWithItsOmega) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  Trainer first(run, context);
  while (first.step() < 12) first.Step();  // two redraws
  const double loss = first.Evaluate(Split::kValid, 2).MeanLoss();
  run.training.seed = 77;
  run.training.redraw = 4;
  const auto data = std::shared_ptr<const Dataset>(OpenData(SmallRun()));
  Trainer second(run, context, data);
  EXPECT_NE(second.Evaluate(Split::kValid, 2).MeanLoss(), loss);
  second.StartFrom(first.model());
  EXPECT_EQ(second.Evaluate(Split::kValid, 2).MeanLoss(), loss);
  for (int i = 0; i < 3; ++i) second.Step();
  const TempDir dir;
  second.Save(dir / "a.safetensors");
  for (int i = 0; i < 3; ++i) second.Step();  // drawn anew after the fourth step
  Trainer third(run, context, data);
  third.Load(dir / "a.safetensors");
  for (int i = 0; i < 3; ++i) third.Step();
  EXPECT_EQ(third.Evaluate(Split::kValid, 2).MeanLoss(),
            second.Evaluate(Split::kValid, 2).MeanLoss());
  EXPECT_THROW(third.StartFrom(first.model()), Error);
  run.model.ff = 32;
  Trainer other(run, context, data);
  EXPECT_THROW(other.StartFrom(first.model()), Error);
}

// A model may have any seed of 64 bits: a run that starts from it is saved and continued.
TEST(Trainer, StartsFromAModelOfAnySeed) {
  const Context context({.threads = 1});
  const TempDir dir;
  for (const uint64_t seed : {uint64_t{7}, uint64_t{1} << 63, UINT64_MAX}) {
    Trainer trainer(SmallRun(), context), other(SmallRun(), context);
    trainer.StartFrom(Model(trainer.config().model, seed));
    trainer.Step();
    trainer.Save(dir / "a.safetensors");
    other.Load(dir / "a.safetensors");
    EXPECT_EQ(other.Step().loss, trainer.Step().loss) << seed;
  }
}

TEST(Schedule, RisesThenFalls) {
  TrainConfig config{.steps = 110, .learning_rate = 2, .warmup = 10, .final_rate = 0.1};
  EXPECT_DOUBLE_EQ(train::LearningRate(config, 1), 0.2);
  EXPECT_DOUBLE_EQ(train::LearningRate(config, 10), 2);
  EXPECT_NEAR(train::LearningRate(config, 60), 1.1, 1e-12);  // half way down
  EXPECT_NEAR(train::LearningRate(config, 110), 0.2, 1e-12);
  config.schedule = Schedule::kConstant;
  EXPECT_DOUBLE_EQ(train::LearningRate(config, 110), 2);
  config.warmup = 0;
  EXPECT_DOUBLE_EQ(train::LearningRate(config, 1), 2);
}

// Two steps by hand: the formula of the header in independent code.
TEST(AdamW, FollowsItsFormula) {
  const Context context({.threads = 1});
  layers::ParameterSet parameters({.seed = 1, .type = DataType::kF64});
  parameters.Add("a", {3}, {.mean = 0.5, .deviation = 1}, /*decays=*/true);
  parameters.Add("b", {2}, {.mean = -0.25}, /*decays=*/false);
  parameters.Allocate();
  parameters.ZeroGradients(context);
  Tally tally(context);
  tally.At()->squared_norm = 4;  // twice the clip: gradients are halved
  train::AdamW optimizer(parameters,
                         {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-3, .weight_decay = 0.1});
  for (const auto& parameter : parameters.all()) {
    for (int64_t i = 0; i < parameter->shape.Elements(); ++i) {
      double w = parameter->value.Data<double>()[i], m = 0, v = 0;
      for (int step = 1; step <= 2; ++step) {
        const double g = 0.5 * (step + static_cast<double>(i));
        m = 0.9 * m + 0.1 * g;
        v = 0.98 * v + 0.02 * g * g;
        const double decay = parameter->decays ? 0.1 * w : 0;
        w -= 0.01 *
             (m / (1 - std::pow(0.9, step)) / (std::sqrt(v / (1 - std::pow(0.98, step))) + 1e-3) +
              decay);
      }
      parameter->grad.Data<double>()[i] = w;  // the expected value, kept until it is compared
    }
  }
  std::vector<std::vector<double>> expected;
  for (const auto& parameter : parameters.all()) {
    const double* values = parameter->grad.Data<double>();
    expected.emplace_back(values, values + parameter->shape.Elements());
  }
  for (int step = 1; step <= 2; ++step) {
    for (const auto& parameter : parameters.all()) {
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
        parameter->grad.Data<double>()[i] = step + static_cast<double>(i);
    }
    optimizer.Step(context, {.number = step, .rate = 0.01, .clip = 1}, tally, parameters);
  }
  for (size_t p = 0; p < 2; ++p) {
    for (size_t i = 0; i < expected[p].size(); ++i)
      EXPECT_NEAR(parameters.all()[p]->value.Data<double>()[i], expected[p][i], 1e-14);
  }
}

// Passes that read another type see the new values.
TEST(AdamW, RefreshesWhatPassesRead) {
  const Context context({.threads = 1});
  layers::ParameterSet parameters({.pass_type = DataType::kBF16});
  const layers::Parameter& one = parameters.Add("one", {1}, {.mean = 1}, /*decays=*/false);
  parameters.Allocate();
  parameters.ZeroGradients(context);
  *one.grad.Data<float>() = 1;
  train::AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.98, .epsilon = 0});
  optimizer.Step(context, {.number = 1, .rate = 0.25}, Tally(context), parameters);
  Tensor read({1});
  Copy(one.read, read);
  EXPECT_EQ(*read.Data<float>(), 0.75f);
}

// Eight sequences of noise, learned by heart.
class EightSequences : public Dataset {
 public:
  int64_t vocab() const override { return 11; }
  int64_t classes() const override { return 0; }
  int64_t Length(int64_t) const override { return 24; }
  Batch TrainBatch(const BatchRequest&) const override {
    const RandomStream stream(3, "noise");
    Batch batch{.batch = 8, .length = 24};
    const auto token = [&](int64_t i) {
      return static_cast<int32_t>(stream.Uniform(static_cast<uint64_t>(i)) * 10);
    };
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 24; ++j) {
        // The first token tells the sequences apart.
        batch.tokens.push_back(j == 0 ? static_cast<int32_t>(i) : token(25 * i + j));
        batch.targets.push_back(token(25 * i + j + 1));
      }
    }
    return batch;
  }
  int64_t Batches(Split, int64_t, int64_t) const override { return 1; }
  Batch EvalBatch(Split, const BatchRequest& request) const override { return TrainBatch(request); }
};

TEST(Training, TinyModelsLearnEightSequencesByHeart) {
  const Context context({.threads = 2});
  for (const char* attention : {"linear", "exact"}) {
    RunConfig run;
    run.model = Preset("tiny");
    run.model.width = 64;
    run.model.ff = 128;
    run.model.attention = attention;
    run.training = {.steps = 200, .batch = 8, .learning_rate = 3e-3, .warmup = 20, .dropout = 0};
    Trainer trainer(run, context, std::make_shared<EightSequences>());
    while (trainer.step() < run.training.steps) trainer.Step();
    EXPECT_LT(trainer.Evaluate(Split::kValid, 0).MeanLoss(), 0.02) << attention;
  }
}

std::vector<double> Losses(const RunConfig& run, int threads) {
  const Context context({.threads = threads});
  Trainer trainer(run, context);
  std::vector<double> losses;
  while (trainer.step() < run.training.steps) losses.push_back(trainer.Step().loss);
  losses.push_back(trainer.Evaluate(Split::kValid, 2).loss);
  return losses;
}

TEST(Training, SameLossesForAnyNumberOfThreads) {
  RunConfig run = SmallRun();
  run.training.accumulate = 2;
  const std::vector<double> one = Losses(run, 1);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(one, Losses(run, threads)) << threads;
  run.training.seed = 1;
  EXPECT_NE(one, Losses(run, 1));
}

TEST(Training, AccumulatedBatchesAreOneLargeBatch) {
  const Context context({.threads = 1});
  RunConfig one = SmallRun(), two = SmallRun();
  one.training.dropout = two.training.dropout = 0;
  one.training.batch = 8;
  two.training.accumulate = 2;
  Trainer a(one, context), b(two, context);
  // Generated examples are numbered throughout: both read the same eight.
  EXPECT_NEAR(a.Step().loss, b.Step().loss, 1e-6);
  EXPECT_NEAR(a.Step().loss, b.Step().loss, 1e-4);
}

TEST(Training, OmegaIsRedrawnWhileTrainingOnly) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  run.training.redraw = 2;
  Trainer trainer(run, context);
  std::vector<uint64_t> redraws;
  for (int i = 0; i < 6; ++i) {
    trainer.Step();
    redraws.push_back(internal::Inside(trainer.model()).redraw());
  }
  EXPECT_EQ(redraws, (std::vector<uint64_t>{0, 0, 1, 1, 2, 2}));
  const double loss = trainer.Evaluate(Split::kValid, 1).loss;
  EXPECT_EQ(loss, trainer.Evaluate(Split::kValid, 1).loss);
  EXPECT_EQ(internal::Inside(trainer.model()).redraw(), 2u);
}

// Whatever the optimizer, the data, dropout and ω were doing is in the checkpoint.
TEST(Training, ContinuesBitForBit) {
  const Context context({.threads = 2});
  TempDir dir;
  const RunConfig run = SmallRun();
  const std::vector<double> whole = Losses(run, 1);
  for (int64_t stop = 1; stop < run.training.steps; stop += 3) {
    std::vector<double> losses;
    {
      Trainer first(run, context);
      while (first.step() < stop) losses.push_back(first.Step().loss);
      first.Save(dir / "half", R"({"note":1})");
    }
    Trainer second(run, context);
    EXPECT_EQ(second.Load(dir / "half"), R"({"note":1})");
    while (second.step() < run.training.steps) losses.push_back(second.Step().loss);
    losses.push_back(second.Evaluate(Split::kValid, 2).loss);
    EXPECT_EQ(losses, whole) << stop;
  }
}

// Weights, moments and step, as the bytes of a file.
std::string Saved(const Trainer& trainer, const std::string& path) {
  trainer.Save(path);
  return ReadText(path);
}

TEST(Training, ARefusedFileChangesNothing) {
  const Context context({.threads = 1});
  TempDir dir;
  const RunConfig run = SmallRun();
  Trainer trainer(run, context);
  for (int i = 0; i < 7; ++i) trainer.Step();
  trainer.SaveModel(dir / "best");
  for (int i = 0; i < 2; ++i) trainer.Step();
  const std::string before = Saved(trainer, dir / "before");
  const Model& model = trainer.model();
  try {
    trainer.Load(dir / "best");
    FAIL() << "no moments, yet it was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_NE(std::string(error.what()).find("lacks the tensor 'optimizer."), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(trainer.step(), 9);
  EXPECT_EQ(Saved(trainer, dir / "after"), before);
  RunConfig other = run;
  other.training.seed = 1;
  Trainer stranger(other, context);
  const std::string untouched = Saved(stranger, dir / "untouched");
  EXPECT_THROW(stranger.Load(dir / "before"), Error);
  EXPECT_EQ(Saved(stranger, dir / "untouched"), untouched);
  // Loading changes the same model: a decoder of it reads the new weights.
  trainer.Step();
  trainer.Load(dir / "before");
  EXPECT_EQ(&trainer.model(), &model);
  EXPECT_EQ(trainer.step(), 9);
  EXPECT_EQ(Saved(trainer, dir / "after"), before);
}

TEST(Training, DecodersOutliveALoad) {
  const Context context({.threads = 1});
  TempDir dir;
  Trainer trainer(SmallRun(), context);
  trainer.Save(dir / "first");
  const std::vector<int32_t> tokens = {1, 2, 3};
  Decoder expected(trainer.model(), context), decoder(trainer.model(), context);
  expected.Read(tokens);
  for (int i = 0; i < 3; ++i) trainer.Step();
  trainer.Load(dir / "first");
  decoder.Read(tokens);
  EXPECT_TRUE(std::ranges::equal(decoder.Logits(), expected.Logits()));
}

TEST(Training, StopsWhereTheLossIsNotFinite) {
  const Context context({.threads = 1});
  for (const char* attention : {"linear", "identity"}) {
    RunConfig run = SmallRun();
    run.model.attention = attention;
    Trainer trainer(run, context);
    trainer.Step();
    const auto& parameters = internal::Inside(trainer.model()).parameters().all();
    for (const auto& parameter : parameters) {
      if (parameter->name == "layers.1.feed_forward.up.weight")
        parameter->value.Data<float>()[3] = std::numeric_limits<float>::infinity();
    }
    const ConstView values = internal::Inside(trainer.model()).parameters().values();
    const std::vector<float> before(values.Data<float>(), values.Data<float>() + values.size(0));
    try {
      trainer.Step();
      FAIL();
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("step 2"), std::string::npos) << what;
      EXPECT_NE(what.find("layers.1.feed_forward.up.weight"), std::string::npos) << what;
      EXPECT_NE(what.find("learning rate"), std::string::npos) << what;
    }
    EXPECT_EQ(trainer.step(), 1);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), values.Data<float>()));
  }
}

// A rate that is far too high gives the same error, wherever numbers leave their range.
TEST(Training, DivergenceIsAnErrorThatNamesTheStep) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  run.training.learning_rate = 1000;
  run.training.clip = 0;
  run.training.warmup = 0;
  run.training.steps = 400;
  Trainer trainer(run, context);
  try {
    while (trainer.step() < 400) trainer.Step();
    FAIL() << "a million times too fast, and yet it did not diverge";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("training diverged at step "), std::string::npos)
        << error.what();
  }
}

// The first sum that overflows is named by the layer that it leaves. Both branches of layer 0 add
// 3·10³⁸ to each row, which is more than a float holds.
TEST(Training, DivergenceNamesTheLayer) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  run.model.layers = 3;
  run.training.dropout = 0;
  for (const int64_t layer : {0, 1}) {
    Trainer trainer(run, context);
    const std::string name = "layers." + std::to_string(layer);
    for (const Model::NamedParameter& parameter : trainer.model().Parameters()) {
      if (parameter.name == name + ".attention.output.bias" ||
          parameter.name == name + ".feed_forward.down.bias")
        std::fill_n(parameter.value.Data<float>(), parameter.value.shape().Elements(), 3e38f);
    }
    try {
      trainer.Step();
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("first in " + name + ";"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Training, VocabularyMustBeTheDatas) {
  const Context context({.threads = 1});
  RunConfig run = SmallRun();
  run.model.vocab = 99;
  EXPECT_THROW(Trainer(run, context), Error);
  run = SmallRun();
  run.model.max_length = 5;
  EXPECT_THROW(Trainer(run, context), Error);
}

}  // namespace
}  // namespace favor
