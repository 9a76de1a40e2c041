// Whether arrays share memory: for outputs, which must not be anyone else's input.
#ifndef FAVOR_CORE_OVERLAP_H_
#define FAVOR_CORE_OVERLAP_H_

#include "favor/tensor.h"

namespace favor {

// True where two elements lie in the same place. Exact for views of one layout (the same strides,
// as slices of one buffer have); for others it asks whether the address ranges meet.
bool Overlap(const ConstView& a, const ConstView& b);

// True where two elements of one view lie in the same place, as with strides of 0.
bool OverlapsItself(const ConstView& view);

}  // namespace favor

#endif  // FAVOR_CORE_OVERLAP_H_
