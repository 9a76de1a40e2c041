// Models with linearised feed-forward layers: they learn, and dense ones can be converted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/access.h"
#include "favor/error.h"
#include "favor/train.h"
#include "models/checkpoint.h"
#include "models/network.h"
#include "tests/temp_dir.h"
#include "tests/train/small_run.h"
#include "train/calibration.h"
#include "train/linearise.h"

namespace favor {
namespace {

RunConfig SmallLinearised() {
  RunConfig run = SmallRun();
  run.model.feed_forward = FeedForwardKind::kLinearised;
  run.model.linearised = {.degree = 4, .columns = 48};
  return run;
}

double LossAfter(const RunConfig& run, const Context& context) {
  Trainer trainer(run, context);
  while (trainer.step() < run.training.steps) trainer.Step();
  return trainer.Evaluate(Split::kValid, 8).MeanLoss();
}

// Copying six symbols of five: equal probabilities cost 1.61 nats for each symbol that is copied.
// Layers of degree 1 have no curve at all.
TEST(LinearisedTraining, LearnsAboutAsWellAsDenseLayers) {
  const Context context({.threads = 2});
  RunConfig dense = SmallRun();
  dense.model.attention = "exact";
  dense.training.steps = 250;
  dense.training.learning_rate = 5e-3;
  dense.training.dropout = 0;
  dense.training.batch = 16;
  RunConfig linearised = dense;
  linearised.model.feed_forward = FeedForwardKind::kLinearised;
  linearised.model.linearised = {.degree = 2, .columns = 64};
  const double start = Trainer(dense, context).Evaluate(Split::kValid, 8).MeanLoss(),
               first = LossAfter(dense, context), second = LossAfter(linearised, context);
  EXPECT_LT(first, 0.5 * start);
  EXPECT_LT(second, 0.5 * start);
  EXPECT_LT(std::fabs(first - second), 0.25 * start) << first << " " << second;
}

// Sketches follow from the config's seed: a checkpoint holds all that there is.
TEST(LinearisedTraining, ContinuesBitForBit) {
  const Context context({.threads = 2});
  const TempDir dir;
  const RunConfig run = SmallLinearised();
  Trainer whole(run, context), first(run, context), second(run, context);
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) losses.push_back(whole.Step().loss);
  for (int i = 0; i < 4; ++i) first.Step();
  first.Save(dir / "half");
  second.Load(dir / "half");
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(second.Step().loss, losses[i]);
  const Model loaded = Model::Load(dir / "half");
  const Batch batch = first.data().EvalBatch(
      Split::kValid, {.index = 0, .batch = 4, .length = first.config().training.length});
  EXPECT_EQ(loaded.Evaluate(batch, context).loss, first.model().Evaluate(batch, context).loss);
}

TEST(LinearisedTraining, StartsFromDenseWeights) {
  const Context context({.threads = 1});
  Trainer dense(SmallRun(), context), linearised(SmallLinearised(), context);
  for (int i = 0; i < 3; ++i) dense.Step();
  const StartReport report = linearised.StartFrom(dense.model());
  EXPECT_TRUE(report.drawn.empty());
  EXPECT_TRUE(report.unused.empty());
  EXPECT_TRUE(report.same_omega);
  RunConfig own = SmallLinearised();
  own.model.linearised.own_curves = true;
  Trainer curves(own, context);
  EXPECT_EQ(
      curves.StartFrom(dense.model()).drawn,
      (std::vector<std::string>{"layers.0.feed_forward.curve", "layers.1.feed_forward.curve"}));
}

class Conversion : public testing::Test {
 protected:
  Conversion() {
    RunConfig run = SmallRun();
    run.training.steps = 30;
    run.training.learning_rate = 3e-3;
    Train(run, {.out = run_, .quiet = true}, context_);
  }

  const Context context_{{.threads = 1}};
  const TempDir dir_;
  const std::string run_ = dir_ / "run";
};

// Arguments of units are the weights times the inputs: two ways to the same numbers.
TEST_F(Conversion, CalibratesOnWhatUnitsMeet) {
  const TrainedModel trained = LoadTrained(run_);
  const auto data = OpenDataOf(trained);
  const std::vector<Batch> batches = {
      data->TrainBatch({.index = 0, .batch = 4, .length = trained.config.training.length})};
  const models::Network& network = internal::Inside(trained.model);
  const std::vector<train::Calibration> all = train::Calibrate(network, batches, context_);
  ASSERT_EQ(all.size(), 2u);
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".feed_forward.up.";
    const float *w = nullptr, *b = nullptr;
    for (const auto& parameter : network.parameters().all()) {
      if (parameter->name == name + "weight") w = parameter->value.Data<float>();
      if (parameter->name == name + "bias") b = parameter->value.Data<float>();
    }
    ASSERT_EQ(all[layer].values.size(), 24u);
    for (size_t token : {0u, 5u, 17u}) {
      for (size_t unit = 0; unit < 24; ++unit) {
        double t = b[unit];
        for (size_t i = 0; i < 16; ++i)
          t += static_cast<double>(w[unit * 16 + i]) * all[layer].inputs[token][i];
        EXPECT_NEAR(all[layer].values[unit][token], t, 1e-4) << layer << " " << unit;
      }
    }
  }
}

TEST_F(Conversion, WithExactSquaresKeepsTheLoss) {
  const TrainedModel trained = LoadTrained(run_);
  const auto data = OpenDataOf(trained);
  const std::string out = dir_ / "converted";
  train::LineariseOptions options{
      .out = out, .layers = {.degree = 2, .columns = 0, .range = 0, .exact_quadratic = true}};
  const train::LineariseReport report = train::Linearise(trained, *data, options, context_);
  ASSERT_EQ(report.layers.size(), 2u);
  for (const train::LayerReport& layer : report.layers) {
    EXPECT_TRUE(layer.IsUsable()) << layer.Text();
    EXPECT_EQ(layer.usable_units, 24);
    EXPECT_EQ(layer.errors.variance, 0);
    EXPECT_LT(layer.errors.bias, 0.2 * layer.errors.linear);
    EXPECT_GT(layer.mean_width, 0.1);
  }
  EXPECT_NEAR(report.after.MeanLoss(), report.before.MeanLoss(), 0.02 * report.before.MeanLoss());
  // What was written is what was measured, and runs start from it.
  const TrainedModel converted = LoadTrained(out);
  EXPECT_EQ(converted.step, trained.step);
  EXPECT_EQ(converted.fingerprint, trained.fingerprint);
  Score score;
  for (int64_t i = 0; i < 2; ++i)
    score += converted.model.Evaluate(
        data->EvalBatch(Split::kValid,
                        {.index = i, .batch = 4, .length = trained.config.training.length}),
        context_);
  EXPECT_EQ(score.loss, report.after.loss);
  RunConfig further = converted.config;
  further.init = out;
  further.training.steps = 2;
  Train(further, {.out = dir_ / "further", .quiet = true}, context_);
  EXPECT_THROW(train::Linearise(trained, *data, options, context_), Error);  // the folder is taken
  options.out = dir_ / "again";
  EXPECT_THROW(train::Linearise(converted, *data, options, context_), Error);
}

// One curve for a layer has a larger bias than one for each unit; a line is a line.
TEST_F(Conversion, SaysWhatIsNotUsable) {
  const TrainedModel trained = LoadTrained(run_);
  const auto data = OpenDataOf(trained);
  const auto convert = [&](const std::string& name, const LinearisedLayers& layers, bool per_unit) {
    return train::Linearise(trained, *data,
                            {.out = dir_ / name, .layers = layers, .per_unit = per_unit}, context_);
  };
  const LinearisedLayers exact{.degree = 2, .columns = 0, .range = 0, .exact_quadratic = true};
  const auto units = convert("units", exact, true), layer = convert("layer", exact, false),
             line = convert("line", {.degree = 1, .columns = 0, .range = 0}, true),
             few = convert("few", {.degree = 2, .columns = 2, .range = 0}, true);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LT(units.layers[i].errors.bias, layer.layers[i].errors.bias);
    EXPECT_DOUBLE_EQ(line.layers[i].errors.bias, units.layers[i].errors.linear);
    EXPECT_GT(few.layers[i].errors.variance, few.layers[i].errors.linear);
    EXPECT_NE(few.layers[i].Text().find("not usable here: "), std::string::npos);
  }
}

}  // namespace
}  // namespace favor
