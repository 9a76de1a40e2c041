// Finds the segments of elements on a GPU, where the host does not know them.
#ifndef FAVOR_KERNELS_CUDA_PARTS_SEGMENT_WALK_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_SEGMENT_WALK_CUH_

#include <cstdint>

#include "kernels/segment.h"

namespace favor::kernels::cuda {

// A thread that visits elements in increasing order.
class SegmentWalk {
 public:
  __device__ SegmentWalk(const Segments& segments, int64_t first) : segments_(segments) {
    int64_t low = 0, high = segments.count;  // the first segment that ends after `first`
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const Segment& segment = segments.data[middle];
      if (segment.begin + segment.count <= first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    Take(low);
  }

  // Where the segment of the last visited element, or the next one, begins.
  __device__ int64_t begin() const { return begin_; }

  // Calls body(i, whether weight decay acts on it) for those of the elements first + i,
  // 0 ≤ i < kCount, that lie in a segment.
  template <int kCount, class Body>
  __device__ void ForPacket(int64_t first, const Body& body) {
    MoveTo(first);
    if (begin_ <= first && first + kCount <= end_) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) body(i, decays_);
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      MoveTo(first + i);
      if (first + i >= begin_) body(i, decays_);
    }
  }

 private:
  __device__ void MoveTo(int64_t element) {
    while (end_ <= element) Take(index_ + 1);
  }
  __device__ void Take(int64_t index) {
    index_ = index;
    if (index < segments_.count) {
      begin_ = segments_.data[index].begin;
      end_ = begin_ + segments_.data[index].count;
      decays_ = segments_.data[index].decays;
    } else {
      begin_ = end_ = INT64_MAX;
    }
  }

  Segments segments_;
  int64_t index_, begin_, end_;
  bool decays_ = false;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_SEGMENT_WALK_CUH_
