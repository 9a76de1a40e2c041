#include "layers/dropout.h"

namespace favor::layers {

void Drop(const Pass& pass, uint64_t place, ConstView x, View y) {
  const RandomStream stream = pass.stream.Child(place);
  kernels::Dropout(
      {.x = x, .share = pass.dropout, .seed = stream.seed(), .stream = stream.id(), .y = y},
      pass.context);
}

ConstView Dropped(const Pass& pass, uint64_t place, ConstView x, View memory) {
  if (pass.dropout == 0) return x;
  Drop(pass, place, x, memory);
  return memory;
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
