// Elements set to 0 at random, the others scaled so that the mean stays: y = dropped(x), or
// y = residual + dropped(x). What is dropped is a pure function of the stream and the element, and
// the map is linear: gradients are the same operation again.
#ifndef FAVOR_KERNELS_DROPOUT_H_
#define FAVOR_KERNELS_DROPOUT_H_

#include <cstdint>

#include "kernels/backend.h"

namespace favor::kernels {

struct DropoutArguments {
  ConstView x;
  ConstView residual{};  // empty: y = dropped(x)
  double share = 0;      // share of elements that are dropped; 0: none
  // A stream of core/philox.h. 16 bits decide about an element: block i decides about elements 8i …
  // 8i + 7.
  uint64_t seed = 0, stream = 0;
  View y;  // may be x
};

namespace cpu {  // the double instances of its loops are the reference
void Dropout(const DropoutArguments& a, const Context& context);
}
namespace cuda {
void Dropout(const DropoutArguments& a, const Context& context);
}

inline void Dropout(const DropoutArguments& a, const Context& context) {
  Run<DropoutArguments>(
      {.name = "dropout", .reference = cpu::Dropout, .cpu = cpu::Dropout, .cuda = cuda::Dropout},
      a.y, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_DROPOUT_H_
