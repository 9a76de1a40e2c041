// States of the segments of a call (kernels/linear_segments.h).
#ifndef FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_

#include <cstdint>

#include "core/device_work.h"
#include "kernels/linear_segments.h"

namespace favor::kernels::cuda {

// States of segments in floats, with exponents as E of map.h, in natural logarithm: norm and offset
// included.
struct SegmentStates {
  float* c;          // [groups, segments, width]; −∞ without keys
  float* z;          // [groups, segments, width]
  float* s;          // [groups, segments, width, value_dim]
  float* log_decay;  // [groups, segments], Λ
};

// States in `memory`, StateFloats of them.
inline SegmentStates StatesIn(float* memory, int64_t count, int64_t width, int64_t value_dim) {
  float* s = memory;  // first: the longest rows, at a multiple of 256 bytes
  float *c = s + count * width * value_dim, *z = c + count * width;
  return {.c = c, .z = z, .s = s, .log_decay = z + count * width};
}

// The memory of such states.
class SegmentStateScratch {
 public:
  SegmentStateScratch(const Context& context, int64_t groups, const Cut& cut, int64_t width,
                      int64_t value_dim)
      : count_(groups * cut.segments),
        width_(width),
        value_dim_(value_dim),
        memory_(context, StateFloats(count_, width, value_dim)) {}

  SegmentStates states() const { return StatesIn(memory_.data(), count_, width_, value_dim_); }

 private:
  int64_t count_, width_, value_dim_;
  DeviceScratch<float> memory_;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_
