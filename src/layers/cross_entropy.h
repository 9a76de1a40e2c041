// The loss −log softmax(logits)[target] and its gradient.
#ifndef FAVOR_LAYERS_CROSS_ENTROPY_H_
#define FAVOR_LAYERS_CROSS_ENTROPY_H_

#include <cstdint>
#include <span>

#include "favor/context.h"
#include "favor/score.h"
#include "favor/tensor.h"

namespace favor::layers {

// logits [rows, classes], targets in [0, classes). With `grad_scale` ≠ 0 the logits are replaced by
// grad_scale·(softmax − one-hot).
Score CrossEntropy(const Context& context, View logits, std::span<const int32_t> targets,
                   double grad_scale);

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_CROSS_ENTROPY_H_
