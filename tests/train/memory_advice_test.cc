#include "train/memory_advice.h"

#include <gtest/gtest.h>

#include "core/error_text.h"
#include "favor/favor.h"
#include "tests/train/small_run.h"

namespace favor::train {
namespace {

std::string Gigabytes(const ModelConfig& model, const MemoryRequest& step) {
  const double gigabytes = static_cast<double>(EstimateMemory(model, step).Total()) * 1e-9;
  return fmt::format("{:.{}f} GB", gigabytes, gigabytes < 10 ? 2 : gigabytes < 100 ? 1 : 0);
}

TEST(MemoryAdvice, SaysWhatLessWouldTake) {
  const ModelConfig model = [] {
    ModelConfig regular = Preset("regular");
    regular.vocab = 258;
    regular.max_length = 4096;
    return regular;
  }();
  const MemoryRequest step{.batch = 8, .length = 4096};
  MemoryRequest half = step, recompute = step;
  half.batch = 4;
  recompute.recompute = true;
  EXPECT_EQ(MemoryAdvice(model, step), "a step of batch 8 × length 4096 takes about " +
                                           Gigabytes(model, step) + ": " +
                                           Gigabytes(model, recompute) + " with recompute, " +
                                           Gigabytes(model, half) + " with batch 4");
  MemoryRequest one{.batch = 1, .length = 4096, .recompute = true}, shorter = one;
  shorter.length = 2048;
  EXPECT_EQ(MemoryAdvice(model, one), "a step of batch 1 × length 4096 takes about " +
                                          Gigabytes(model, one) + ": " + Gigabytes(model, shorter) +
                                          " with length 2048");
  one.placement.device.type = DeviceType::kCuda;
  MemoryRequest narrow = one;
  narrow.placement.pass_type = DataType::kBF16;
  const std::string advice = MemoryAdvice(model, one);
  EXPECT_TRUE(advice.ends_with(", " + Gigabytes(model, narrow) + " with precision bf16")) << advice;
  EXPECT_EQ(MemoryAdvice(model, narrow).find("bf16"), std::string::npos);
}

// A run that no machine can hold: one error, with both what failed and what to change.
TEST(MemoryAdvice, IsPartOfTheErrorOfARun) {
  RunConfig run = SmallRun();
  run.model.width = 512;
  run.model.ff = 2048;
  run.training.batch = 4096;
  const Context context({.threads = 1});
  run.data = "task:copy,length=4000,symbols=5";
  try {
    Trainer trainer(run, context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    const std::string text = error.what();
    EXPECT_NE(text.find("GiB requested"), std::string::npos) << text;
    EXPECT_NE(text.find(": a step of batch 4096 × length "), std::string::npos) << text;
    EXPECT_NE(text.find(" with recompute, "), std::string::npos) << text;
  }
}

// Batches of the caller, whatever the config says.
TEST(MemoryAdvice, IsAboutTheBatchesThatAreGiven) {
  RunConfig run = SmallRun();
  run.data = "";
  run.model.vocab = 7;
  run.model.width = 512;
  run.model.ff = 2048;
  run.model.positions = Positions::kRotary;
  run.training.length = 6;
  const Context context({.threads = 1});
  Trainer trainer(run, context);
  Batch small{.batch = 2, .length = 6}, large{.batch = 3, .length = 1 << 24};
  for (Batch* batch : {&small, &large}) {
    batch->tokens.assign(static_cast<size_t>(batch->batch * batch->length), 0);
    batch->targets = batch->tokens;
  }
  const std::vector<Batch> batches = {small, large};
  const auto expect = [&](const auto& work) {
    try {
      work();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      const std::string text = error.what();
      EXPECT_NE(text.find(": a step of batch 3 × length 16777216 takes about "), std::string::npos)
          << text;
      EXPECT_TRUE(text.ends_with(" with batch 1")) << text;
    }
  };
  expect([&] { trainer.Step(batches); });
  expect([&] { trainer.AddGradients(batches, trainer.CountTargets(batches)); });
}

TEST(MemoryAdvice, IsSilentAboutWhatCannotBeCounted) {
  ModelConfig model = Preset("regular");
  model.vocab = 258;
  model.max_length = 1 << 22;
  EXPECT_EQ(MemoryAdvice(model, {.batch = int64_t{1} << 40, .length = 1 << 22}), "");
}

}  // namespace
}  // namespace favor::train
