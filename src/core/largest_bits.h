// The largest absolute value of many floats, at the speed of memory.
#ifndef FAVOR_CORE_LARGEST_BITS_H_
#define FAVOR_CORE_LARGEST_BITS_H_

#include <cstdint>

namespace favor {

// As the bits of a float: as integers, floats without their sign keep their order, with infinity
// and NaN last. 0 if there are none.
int32_t LargestBits(const float* values, int64_t count);

}  // namespace favor

#endif  // FAVOR_CORE_LARGEST_BITS_H_
