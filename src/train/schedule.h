// The learning rate of a step.
#ifndef FAVOR_TRAIN_SCHEDULE_H_
#define FAVOR_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "favor/train.h"

namespace favor::train {

// The learning rate of step number `step` ≥ 1: rises linearly over the warm-up, then stays or falls
// as half a cosine to final_rate of the full rate at the last step.
double LearningRate(const TrainConfig& config, int64_t step);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_SCHEDULE_H_
