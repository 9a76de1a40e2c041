// First values of the layers that read and write tokens, such that a model begins at chance. With
// tables of deviation width^(−1/2) the logit of the present token is about √width in a tied model:
// 7 to 12 nats at the first step, while chance is 3 to 6 (decision 0014 has the curves).
#ifndef FAVOR_MODELS_FIRST_VALUES_H_
#define FAVOR_MODELS_FIRST_VALUES_H_

#include <cmath>

#include "favor/model.h"

namespace favor::models {

// Standard deviation of the tables of tokens and of learned positions, whose rows are multiplied by
// √width unless the config says otherwise. Sinusoidal positions have amplitude 1, so tokens keep
// variance 1 next to them.
inline double EmbeddingDeviation(const ModelConfig& config) {
  return std::pow(static_cast<double>(config.width),
                  config.positions == Positions::kSinusoidal ? -0.5 : -0.75);
}

// Standard deviation of output weights that are not tied.
inline double OutputDeviation(const ModelConfig& config) {
  return std::pow(static_cast<double>(config.width), -0.75);
}

// Gain of the last norm of a model whose table of tokens also makes the logits: small if the
// table's values are not, and in post-norm models, where the present token keeps a larger share of
// the last row.
inline double LastGain(const ModelConfig& config) {
  if (!config.tied || config.classes > 0) return 1;
  if (config.positions == Positions::kSinusoidal)
    return std::pow(static_cast<double>(config.width), -0.5);
  return config.norm == Norm::kPost ? std::pow(static_cast<double>(config.width), -0.25) : 1;
}

}  // namespace favor::models

#endif  // FAVOR_MODELS_FIRST_VALUES_H_
