// The feed-forward layers of a config.
#ifndef FAVOR_MODELS_FEED_FORWARD_H_
#define FAVOR_MODELS_FEED_FORWARD_H_

#include <string>

#include "favor/linearised.h"
#include "favor/model.h"
#include "layers/feed_forward.h"

namespace favor::models {

Function FunctionOf(Activation activation);

layers::FeedForwardShape FeedForwardShapeOf(const ModelConfig& config, double output_gain);

// Throws kInvalidOption for what dense layers do not have, and for a linearisation that cannot be.
void CheckFeedForward(const ModelConfig& config);

// "dense feed-forward", "linearised feed-forward (degree 2, 641 columns)".
std::string FeedForwardText(const ModelConfig& config);

}  // namespace favor::models

#endif  // FAVOR_MODELS_FEED_FORWARD_H_
