// Training on a GPU next to training on the CPU: the same batches, dropout and ω, so the same
// losses. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/device.h"
#include "favor/favor.h"
#include "tests/temp_dir.h"

namespace favor {
namespace {

constexpr int64_t kVocab = 37, kBatch = 5, kLength = 150;
constexpr int kSteps = 12;

// Models of a size that the fused kernels take, with tails everywhere.
RunConfig TrainingRun() {
  RunConfig run;
  run.model = {.vocab = kVocab,
               .width = 64,
               .layers = 2,
               .heads = 2,
               .ff = 100,
               .positions = Positions::kRotary,
               .features = ModelConfig::Features(48)};
  run.training = {.steps = kSteps,
                  .batch = kBatch,
                  .length = kLength,
                  .learning_rate = 3e-3,
                  .warmup = 3,
                  .redraw = 5,
                  .seed = 2};
  return run;
}

// Tokens that repeat with a period, and noise; sequences of an encoder end in padding.
Batch BatchOf(const RunConfig& run, int64_t index) {
  const RandomStream stream = RandomStream(9, "batches").Child(static_cast<uint64_t>(index));
  const bool classes = run.model.classes > 0, encodes = run.task != Task::kCausal;
  Batch batch{.batch = kBatch, .length = kLength};
  for (int64_t b = 0; b < kBatch; ++b) {
    const int64_t end = encodes ? kLength - 11 * b : kLength;
    for (int64_t i = 0; i < kLength; ++i) {
      const double noise = stream.Uniform(static_cast<uint64_t>(b * kLength + i));
      const int64_t token = noise < 0.2 ? static_cast<int64_t>(noise * 5 * kVocab) : (i + b) % 7;
      batch.tokens.push_back(static_cast<int32_t>(token));
      if (encodes) batch.mask.push_back(i < end ? 1.0f : 0.0f);
      if (!classes)
        batch.targets.push_back(i < end && i % 3 == 0 ? static_cast<int32_t>((i + b + 1) % 7)
                                                      : kNoTarget);
    }
    if (classes) batch.targets.push_back(static_cast<int32_t>(b % run.model.classes));
  }
  return batch;
}

struct Setting {
  std::string name;
  std::function<void(RunConfig&)> change;
};

std::vector<Setting> Settings() {
  return {
      {"positive", [](RunConfig&) {}},
      {"omega in bf16", [](RunConfig& run) { run.model.features.omega_type = OmegaType::kBF16; }},
      {"forgetting",
       [](RunConfig& run) {
         run.model.features.map = "relu";
         run.model.features.omega_type = OmegaType::kBF16;
         run.model.decay = Decay::kToken;
         run.model.convolution = 4;
       }},
      {"fixed forgetting, heads that share keys",
       [](RunConfig& run) {
         run.model.decay = Decay::kFixed;
         run.model.kv_heads = 1;
       }},
      {"mixed heads",
       [](RunConfig& run) { run.model.heads_of = "relu:1:decay=token,taylor:1:dim=8:decay=none"; }},
      {"exact, learned positions, untied",
       [](RunConfig& run) {
         run.model.attention = "exact";
         run.model.positions = Positions::kLearned;
         run.model.max_length = kLength;
         run.model.tied = false;
         run.model.activation = Activation::kRelu;
       }},
      {"encoder with padding, norms behind",
       [](RunConfig& run) {
         run.task = Task::kMasked;
         run.model.norm = Norm::kPost;
         run.model.positions = Positions::kSinusoidal;
         run.model.activation = Activation::kGeluTanh;
       }},
      {"exact encoder, recomputed",
       [](RunConfig& run) {
         run.task = Task::kMasked;
         run.model.attention = "exact";
         run.training.recompute = true;
       }},
      {"classes",
       [](RunConfig& run) {
         run.task = Task::kClassify;
         run.model.classes = 3;
         run.model.convolution = 3;
       }},
      {"two batches a step, frozen layers",
       [](RunConfig& run) {
         run.training.accumulate = 2;
         run.training.freeze = 1;
       }},
  };
}

RunConfig RunOf(const Setting& setting) {
  RunConfig run = TrainingRun();
  setting.change(run);
  return run;
}

void Step(Trainer& trainer, std::vector<double>& losses) {
  const RunConfig& run = trainer.config();
  std::vector<Batch> batches;
  for (int64_t i = 0; i < run.training.accumulate; ++i)
    batches.push_back(BatchOf(run, trainer.step() * run.training.accumulate + i));
  losses.push_back(trainer.Step(batches).loss);
}

// Losses of all steps.
std::vector<double> Losses(const RunConfig& run, const Context& context, DataType pass_type) {
  Trainer trainer(run, context, nullptr, pass_type);
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) Step(trainer, losses);
  return losses;
}

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (ListGpus().empty()) GTEST_SKIP() << "no GPU on this machine";
    gpu_.emplace(ContextOptions{.device = {.type = DeviceType::kCuda}});
  }

  const Context cpu_{{.threads = 4}};
  std::optional<Context> gpu_;
};

TEST_F(CudaTraining, LossesAreThoseOfTheCpu) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const RunConfig run = RunOf(setting);
    const std::vector<double> want = Losses(run, cpu_, DataType::kF32),
                              got = Losses(run, *gpu_, DataType::kF32);
    EXPECT_LT(want.back(), want.front());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3 * want[0]) << i;
  }
}

TEST_F(CudaTraining, LossesInBf16AreNear) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const RunConfig run = RunOf(setting);
    const std::vector<double> want = Losses(run, *gpu_, DataType::kF32),
                              got = Losses(run, *gpu_, DataType::kBF16);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 0.03 * want[0]) << i;
    EXPECT_NE(got, want);
  }
}

TEST_F(CudaTraining, GivesTheSameLossesTwice) {
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    const RunConfig run = RunOf(setting);
    for (const DataType type : {DataType::kF32, DataType::kBF16})
      EXPECT_EQ(Losses(run, *gpu_, type), Losses(run, *gpu_, type));
  }
}

// A run moves between devices with its checkpoint.
TEST_F(CudaTraining, ContinuesOnAnotherDevice) {
  const TempDir dir;
  const RunConfig run = RunOf(Settings()[2]);
  std::vector<double> whole = Losses(run, cpu_, DataType::kF32), parts;
  {
    Trainer trainer(run, cpu_);
    for (int i = 0; i < 4; ++i) Step(trainer, parts);
    trainer.Save(dir / "first");
  }
  {
    Trainer trainer(run, *gpu_);
    trainer.Load(dir / "first");
    for (int i = 4; i < 8; ++i) Step(trainer, parts);
    trainer.Save(dir / "second");
  }
  Trainer trainer(run, cpu_);
  trainer.Load(dir / "second");
  for (int i = 8; i < kSteps; ++i) Step(trainer, parts);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-3 * whole[0]) << i;
}

TEST_F(CudaTraining, ACheckpointIsTheSameWhereverItIsRead) {
  const TempDir dir;
  const RunConfig run = RunOf(Settings()[6]);
  std::vector<double> losses;
  {
    Trainer trainer(run, *gpu_, nullptr, DataType::kBF16);
    for (int i = 0; i < 3; ++i) Step(trainer, losses);
    trainer.model().Save(dir / "model");
    trainer.model().Save(dir / "again");
  }
  EXPECT_EQ(ReadText(dir / "model"), ReadText(dir / "again"));
  const Batch batch = BatchOf(run, 100);
  const Model there = Model::Load(dir / "model", {.device = gpu_->device()}),
              here = Model::Load(dir / "model"),
              rounded = Model::Load(dir / "model",
                                    {.device = gpu_->device(), .pass_type = DataType::kBF16});
  const Tensor want = here.Logits(batch, cpu_), got = there.Logits(batch, *gpu_),
               near = rounded.Logits(batch, *gpu_);
  ASSERT_EQ(want.shape(), got.shape());
  ASSERT_EQ(near.type(), DataType::kF32);
  double error = 0, rounding = 0, size = 0;
  for (int64_t i = 0; i < want.shape().Elements(); ++i) {
    const double x = want.Data<float>()[i];
    error += std::pow(got.Data<float>()[i] - x, 2);
    rounding += std::pow(near.Data<float>()[i] - x, 2);
    size += x * x;
  }
  EXPECT_LT(std::sqrt(error / size), 1e-4);
  EXPECT_LT(std::sqrt(rounding / size), 3e-2);
  EXPECT_GT(rounding, error);
  const std::vector<double> there_losses = there.Losses(batch, *gpu_),
                            here_losses = here.Losses(batch, cpu_);
  for (size_t i = 0; i < here_losses.size(); ++i)
    ASSERT_NEAR(there_losses[i], here_losses[i], 1e-3) << i;
}

TEST_F(CudaTraining, SaysWhereItDiverged) {
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    RunConfig run = TrainingRun();
    run.training.learning_rate = 1000;
    run.training.warmup = 0;
    run.training.clip = 0;
    Trainer trainer(run, *gpu_, nullptr, type);
    std::vector<double> losses;
    try {
      for (int i = 0; i < kSteps; ++i) Step(trainer, losses);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_TRUE(
          std::string(error.what()).starts_with("train: training diverged at step 2: layers.0: "))
          << error.what();
    }
  }
}

// Needs no GPU.
TEST(CudaPlacement, PassesInBf16NeedAGpu) {
  try {
    const Model model(TrainingRun().model, 1, {.pass_type = DataType::kBF16});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "precision: given bf16 on cpu, expected f32; bf16 runs on a GPU");
  }
}

}  // namespace
}  // namespace favor
