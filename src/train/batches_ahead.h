// The batches of a run's steps, made while the step before runs on a GPU.
#ifndef FAVOR_TRAIN_BATCHES_AHEAD_H_
#define FAVOR_TRAIN_BATCHES_AHEAD_H_

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "favor/data.h"
#include "favor/train.h"

namespace favor::train {

class BatchesAhead {
 public:
  // `ahead`: batches of the next step are made on a thread of their own. On a CPU they would take
  // time from the step.
  BatchesAhead(std::shared_ptr<const Dataset> data, const TrainConfig& config, bool ahead);

  // Step 0 is the first.
  std::vector<Batch> Of(int64_t step);

 private:
  std::vector<Batch> Make(int64_t step) const;

  std::shared_ptr<const Dataset> data_;
  TrainConfig config_;
  bool ahead_;
  int64_t next_step_ = 0;
  std::future<std::vector<Batch>> next_;  // of next_step_, if it is valid
};

}  // namespace favor::train

#endif  // FAVOR_TRAIN_BATCHES_AHEAD_H_
