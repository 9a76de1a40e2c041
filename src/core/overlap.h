// Whether arrays share memory: an output must not overlap any other array of a call.
#ifndef FAVOR_CORE_OVERLAP_H_
#define FAVOR_CORE_OVERLAP_H_

#include "favor/tensor.h"

namespace favor {

// True if an element of `a` and one of `b` lie in the same place. Exact for views of one layout
// (the same strides, like slices of one buffer); for others, true if the address ranges meet.
bool Overlap(const ConstView& a, const ConstView& b);

// True if two elements of one view lie in the same place, as with strides of 0.
bool OverlapsItself(const ConstView& view);

}  // namespace favor

#endif  // FAVOR_CORE_OVERLAP_H_
