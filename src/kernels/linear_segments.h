// How a call of linear attention is cut for a GPU: the rows of every group into segments, each the
// work of a thread block, which has its own state.
#ifndef FAVOR_KERNELS_LINEAR_SEGMENTS_H_
#define FAVOR_KERNELS_LINEAR_SEGMENTS_H_

#include <algorithm>
#include <cstdint>

#include "favor/tensor.h"
#include "kernels/map_table.h"

namespace favor::kernels {

constexpr int64_t kSegmentStep = 64;  // segments begin at multiples of it
constexpr int64_t kMostSegments = 264;
// Of fused kernels: a thread block each, and one block on each multiprocessor of a large GPU.
constexpr int64_t kMostFusedSegments = 132;
constexpr int64_t kMostStateBytes = int64_t{48} << 20;
// Gradients of ℓ are sums over the rows of a segment: over more rows, what is rounded off adds up.
constexpr int64_t kMostDecayedRows = 8192;

struct Cut {
  int64_t segments, rows;  // per group; the last segment may be shorter
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

// Floats of `count` states of segments: c and z [count, width], S [count, width, value_dim] and Λ
// [count].
inline int64_t StateFloats(int64_t count, int64_t width, int64_t value_dim) {
  return count * (width * (value_dim + 2) + 1);
}

// Whether there are fused kernels for a map and rows of these columns (cuda/fused/linear.cuh).
bool IsFused(const MapEntry& map, int64_t dim, int64_t value_dim, int64_t features);

// The states of the keys before each segment, which a causal call of fused kernels leaves for its
// gradients; of a single segment there is nothing to keep.
struct KeptStates {
  Tensor memory;                         // f32 [StateFloats]
  Cut cut = {.segments = 0, .rows = 0};  // no segments: nothing is kept

  // The size of the memory that a call leaves, of arrays of bf16 on a GPU.
  static int64_t Bytes(int64_t groups, int64_t length, int64_t width, int64_t value_dim,
                       bool forgets);
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_SEGMENTS_H_
