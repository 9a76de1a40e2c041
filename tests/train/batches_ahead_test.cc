#include "train/batches_ahead.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "favor/error.h"

namespace favor::train {
namespace {

// Batches of one token, their number; it remembers who asked for which.
class Numbers : public Dataset {
 public:
  int64_t vocab() const override { return 1000; }
  int64_t classes() const override { return 0; }
  int64_t Length(int64_t asked) const override { return asked; }
  Batch TrainBatch(const BatchRequest& request) const override {
    const std::lock_guard lock(mutex_);
    if (std::this_thread::get_id() != maker_) asked_by_others_.insert(request.index);
    if (request.index == broken) throw Error(ErrorCode::kInvalidData, "numbers", "broken");
    return {.batch = request.batch,
            .length = request.length,
            .tokens = {static_cast<int32_t>(request.index)}};
  }
  int64_t Batches(Split, int64_t, int64_t) const override { return 0; }
  Batch EvalBatch(Split, const BatchRequest& request) const override { return TrainBatch(request); }

  std::set<int64_t> AskedByOthers() const {
    const std::lock_guard lock(mutex_);
    return asked_by_others_;
  }

  int64_t broken = -1;

 private:
  std::thread::id maker_ = std::this_thread::get_id();
  mutable std::mutex mutex_;
  mutable std::set<int64_t> asked_by_others_;
};

std::vector<int32_t> TokensOf(const std::vector<Batch>& batches) {
  std::vector<int32_t> tokens;
  for (const Batch& batch : batches) {
    EXPECT_EQ(batch.batch, 2);
    EXPECT_EQ(batch.length, 3);
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  return tokens;
}

TrainConfig FourSteps() {
  TrainConfig config;
  config.steps = 4;
  config.batch = 2;
  config.length = 3;
  config.accumulate = 2;
  config.first_batch = 100;
  return config;
}

TEST(BatchesAhead, AreThoseOfTheStepInAnyOrder) {
  for (const bool ahead : {false, true}) {
    BatchesAhead batches(std::make_shared<Numbers>(), FourSteps(), ahead);
    for (const int32_t step : {0, 1, 2, 2, 0, 3, 7, 1}) {  // a run may be loaded at any step
      EXPECT_EQ(TokensOf(batches.Of(step)), (std::vector{100 + 2 * step, 101 + 2 * step}));
    }
  }
}

TEST(BatchesAhead, AreMadeByAnotherThreadUpToTheLastStep) {
  const auto data = std::make_shared<Numbers>();
  {
    BatchesAhead batches(data, FourSteps(), /*ahead=*/true);
    for (int64_t step = 0; step < 4; ++step) batches.Of(step);
  }  // waits for what is being made
  EXPECT_EQ(data->AskedByOthers(), (std::set<int64_t>{102, 103, 104, 105, 106, 107}));
  const auto others = std::make_shared<Numbers>();
  BatchesAhead here(others, FourSteps(), /*ahead=*/false);
  for (int64_t step = 0; step < 4; ++step) here.Of(step);
  EXPECT_TRUE(others->AskedByOthers().empty());
}

// What is wrong with a batch is said by the step that reads it, and a batch that nobody reads does
// no harm.
TEST(BatchesAhead, FailWhenTheyAreRead) {
  const auto data = std::make_shared<Numbers>();
  data->broken = 102;
  BatchesAhead batches(data, FourSteps(), /*ahead=*/true);
  EXPECT_EQ(TokensOf(batches.Of(0)), (std::vector{100, 101}));
  EXPECT_THROW(batches.Of(1), Error);
  EXPECT_THROW(batches.Of(1), Error);
  EXPECT_EQ(TokensOf(batches.Of(2)), (std::vector{104, 105}));
  batches.Of(0);
}

}  // namespace
}  // namespace favor::train
