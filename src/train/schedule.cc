#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace favor::train {

double LearningRate(const TrainConfig& config, int64_t step) {
  const double full = config.learning_rate;
  if (step <= config.warmup)
    return full * static_cast<double>(step) / static_cast<double>(config.warmup);
  if (config.schedule == Schedule::kConstant) return full;
  const auto done = static_cast<double>(step - config.warmup),
             all = static_cast<double>(std::max<int64_t>(1, config.steps - config.warmup));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, done / all)));
  return full * (config.final_rate + (1 - config.final_rate) * cosine);
}

}  // namespace favor::train
