#include "layers/dropout.h"

#include "kernels/dropout.h"

namespace favor::layers {

void Drop(const Pass& pass, uint64_t place, ConstView x, View y) {
  const RandomStream stream = pass.stream.Child(place);
  kernels::Dropout(
      {.x = x, .share = pass.dropout, .seed = stream.seed(), .stream = stream.id(), .y = y},
      pass.context);
}

void AddDropped(const Pass& pass, uint64_t place, ConstView x, ConstView branch, View y) {
  const RandomStream stream = pass.stream.Child(place);
  kernels::Dropout({.x = branch,
                    .residual = x,
                    .share = pass.dropout,
                    .seed = stream.seed(),
                    .stream = stream.id(),
                    .y = y},
                   pass.context);
}

}  // namespace favor::layers
