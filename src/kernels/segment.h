// One parameter of a model within the array that holds all of them.
#ifndef FAVOR_KERNELS_SEGMENT_H_
#define FAVOR_KERNELS_SEGMENT_H_

#include <cstdint>

namespace favor::kernels {

struct Segment {
  int64_t begin, count;  // elements; what lies between two segments is 0 and stays 0
  bool decays;           // weight decay acts on it
};

// All parameters, in their order.
struct Segments {
  const Segment* data;  // in memory of the device
  int64_t count;
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_SEGMENT_H_
