// How a call of linear attention is cut for a GPU: the rows of every group into segments, each the
// work of a thread block, which has its own state.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_

#include <algorithm>
#include <cstdint>

#include "core/device_work.h"

namespace favor::kernels::cuda {

constexpr int64_t kSegmentStep = 64;  // segments begin at multiples of it
constexpr int64_t kMostSegments = 264;
constexpr int64_t kMostStateBytes = int64_t{48} << 20;
// Gradients of ℓ are sums over the rows of a segment: over more rows, what is rounded off adds up.
constexpr int64_t kMostDecayedRows = 8192;

struct Cut {
  int64_t segments, rows;  // per group; the last segment may be shorter
};

// States of segments in floats, with exponents as E of map.h, in natural logarithm: norm and offset
// included.
struct SegmentStates {
  float* c;          // [groups, segments, width]; −∞ without keys
  float* z;          // [groups, segments, width]
  float* s;          // [groups, segments, width, value_dim]
  float* log_decay;  // [groups, segments], Λ
};

// By shape alone: the same call is cut in the same way every time. `sides`: how many states each
// segment has.
inline Cut CutRows(int64_t groups, int64_t length, int64_t width, int64_t value_dim,
                   int64_t sides = 1, int64_t most_rows = INT64_MAX,
                   int64_t most_segments = kMostSegments) {
  const auto up = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  const int64_t state_bytes = sides * width * (value_dim + 2) * static_cast<int64_t>(sizeof(float));
  const int64_t affordable = kMostStateBytes / std::max<int64_t>(1, groups * state_bytes);
  const int64_t most = std::max<int64_t>(1, std::min(most_segments / groups, affordable));
  const int64_t rows = std::min(up(length, most), most_rows);
  const int64_t step = std::max<int64_t>(1, up(rows, kSegmentStep)) * kSegmentStep;
  return {.segments = std::max<int64_t>(1, up(length, step)), .rows = step};
}

// The memory of such states.
class SegmentStateScratch {
 public:
  SegmentStateScratch(const Context& context, int64_t groups, const Cut& cut, int64_t width,
                      int64_t value_dim)
      : count_(groups * cut.segments),
        width_(width),
        value_dim_(value_dim),
        memory_(context, count_ * (width * (value_dim + 2) + 1)) {}

  SegmentStates states() const {
    float* s = memory_.data();  // first: the longest rows, at a multiple of 256 bytes
    float *c = s + count_ * width_ * value_dim_, *z = c + count_ * width_;
    return {.c = c, .z = z, .s = s, .log_decay = z + count_ * width_};
  }

 private:
  int64_t count_, width_, value_dim_;
  DeviceScratch<float> memory_;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_LINEAR_SEGMENTS_CUH_
