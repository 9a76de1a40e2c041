#include "layers/dropout.h"

namespace favor::layers {

void Drop(const Pass& pass, uint64_t place, ConstView x, View y) {
  const RandomStream stream = pass.stream.Child(place);
  kernels::Dropout(
      {.x = x, .share = pass.dropout, .seed = stream.seed(), .stream = stream.id(), .y = y},
      pass.context);
}

kernels::DropoutArguments DroppedOnto(const Pass& pass, uint64_t place, ConstView x,
                                      ConstView branch, View y) {
  const RandomStream stream = pass.stream.Child(place);
  return {.x = branch,
          .residual = x,
          .share = pass.dropout,
          .seed = stream.seed(),
          .stream = stream.id(),
          .y = y};
}

}  // namespace favor::layers
