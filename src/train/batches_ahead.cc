#include "train/batches_ahead.h"

#include <system_error>
#include <utility>

namespace favor::train {

BatchesAhead::BatchesAhead(std::shared_ptr<const Dataset> data, const TrainConfig& config,
                           bool ahead)
    : data_(std::move(data)), config_(config), ahead_(ahead) {}

std::vector<Batch> BatchesAhead::Of(int64_t step) {
  const bool is_made = next_.valid() && next_step_ == step;
  std::vector<Batch> batches = is_made ? next_.get() : Make(step);
  if (ahead_ && step + 1 < config_.steps) {
    next_step_ = step + 1;
    try {
      next_ = std::async(std::launch::async, [this, next = next_step_] { return Make(next); });
    } catch (const std::system_error&) {  // no thread: they are made when they are wanted
      next_ = {};
    }
  }
  return batches;
}

std::vector<Batch> BatchesAhead::Make(int64_t step) const {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < config_.accumulate; ++i) {
    batches.push_back(
        data_->TrainBatch({.index = config_.first_batch + step * config_.accumulate + i,
                           .batch = config_.batch,
                           .length = config_.length}));
  }
  return batches;
}

}  // namespace favor::train
