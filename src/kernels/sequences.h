// How the rows of an array are sequences of tokens.
#ifndef FAVOR_KERNELS_SEQUENCES_H_
#define FAVOR_KERNELS_SEQUENCES_H_

#include <cstdint>

#include "favor/tensor.h"

namespace favor::kernels {

// [batch·length, columns]: one sequence after the other.
struct Sequences {
  int64_t batch, length;
  ConstView mask;  // [batch, length], 0: padding; empty: all tokens exist
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_SEQUENCES_H_
