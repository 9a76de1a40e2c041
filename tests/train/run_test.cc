// Runs with their folder, stopped by the program that started them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "favor/favor.h"
#include "tests/temp_dir.h"
#include "tests/train/small_run.h"
#include "train/run_folder.h"

namespace favor {
namespace {

std::string Last(const std::string& folder) { return ReadText(folder + "/last.safetensors"); }

TEST(Run, StopsBeforeAnyStepAndContinues) {
  const Context context({.threads = 1});
  const TempDir dir;
  const TrainResult whole = Train(SmallRun(), {.out = dir / "whole", .quiet = true}, context);
  EXPECT_FALSE(whole.interrupted);
  for (int64_t steps = 0; steps < 12; ++steps) {
    const std::string folder = dir / std::to_string(steps);
    int64_t called = 0;
    const TrainResult stopped =
        Train(SmallRun(), {.out = folder, .quiet = true, .stop = [&] { return called++ == steps; }},
              context);
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_FALSE(stopped.stopped_early);
    EXPECT_EQ(stopped.steps, steps);
    EXPECT_EQ(stopped.loss.has_value(), steps > 0);
    const TrainResult rest =
        Train(SmallRun(), {.out = folder, .resume = true, .quiet = true}, context);
    EXPECT_EQ(rest.steps, 12);
    EXPECT_FALSE(rest.interrupted);
    EXPECT_EQ(rest.best_loss, whole.best_loss);
    EXPECT_TRUE(Last(folder) == Last(dir / "whole")) << steps;
  }
}

// A run that ends with its last step, or because patience is over, was not interrupted.
TEST(Run, ACompleteRunIsNotInterrupted) {
  const Context context({.threads = 1});
  const TempDir dir;
  int64_t called = 0;
  const TrainOptions options{
      .out = dir / "run", .quiet = true, .stop = [&] { return called++ >= 12; }};
  EXPECT_FALSE(Train(SmallRun(), options, context).interrupted);
  EXPECT_EQ(called, 12);
  RunConfig early = SmallRun();
  early.training.patience = 1;
  early.training.learning_rate = 0;
  early.training.redraw = 0;
  called = 4;  // stops where patience ends, after 8 steps
  const TrainResult result =
      Train(early, {.out = dir / "early", .quiet = true, .stop = [&] { return called++ >= 12; }},
            context);
  EXPECT_EQ(result.steps, 8);
  EXPECT_TRUE(result.stopped_early);
  EXPECT_FALSE(result.interrupted);
}

TEST(Run, RefusesTimesThatCannotBe) {
  const Context context({.threads = 1});
  const TempDir dir;
  for (const double minutes : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    try {
      Train(SmallRun(), {.out = dir / "run", .quiet = true, .save_minutes = minutes}, context);
      FAIL() << minutes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    }
    EXPECT_EQ(dir.Entries(), 0);
  }
}

// 100 tokens each at 50, 10, 40 and 20 tokens/s: 2 + 10 + 2.5 + 5 seconds.
TEST(RunFolder, SumsTimesAndTakesTheMedianRate) {
  train::RunFolder run;
  EXPECT_EQ(run.TokensPerSecond(), 0);
  int64_t tokens = 0;
  for (const double rate : {50, 10, 40, 20})
    run.steps.push_back({.tokens = tokens += 100, .tokens_per_second = rate});
  EXPECT_DOUBLE_EQ(run.Seconds(), 19.5);
  run.steps.push_back({.tokens = 500, .tokens_per_second = 15});
  EXPECT_EQ(run.TokensPerSecond(), 20);
}

}  // namespace
}  // namespace favor
