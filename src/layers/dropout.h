// Elements set to 0 at random, the others scaled so that the mean stays. What is dropped is a pure
// function of the pass's stream, the place in the model and the element: gradients draw it again.
#ifndef FAVOR_LAYERS_DROPOUT_H_
#define FAVOR_LAYERS_DROPOUT_H_

#include <cstdint>

#include "favor/tensor.h"
#include "kernels/dropout.h"
#include "layers/pass.h"

namespace favor::layers {

// y = dropped(x); also the gradient, as the map is linear. x and y may be the same.
void Drop(const Pass& pass, uint64_t place, ConstView x, View y);
// dropped(x): in `memory`, or x itself if nothing is dropped.
ConstView Dropped(const Pass& pass, uint64_t place, ConstView x, View memory);
// The operation y = x + dropped(branch).
kernels::DropoutArguments DroppedOnto(const Pass& pass, uint64_t place, ConstView x,
                                      ConstView branch, View y);

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_DROPOUT_H_
