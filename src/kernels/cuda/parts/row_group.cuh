// Rows of an array in the registers of groups of threads: a part of a warp for a narrow row, a
// whole block for a wide one. A block is (threads of a group, groups), and a row that does not
// exist has width 0, so that every thread takes part in every sum.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ROW_GROUP_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ROW_GROUP_CUH_

#include <algorithm>
#include <cstdint>
#include <string>

#include "favor/error.h"
#include "favor/tensor.h"
#include "kernels/cuda/parts/elements.cuh"

namespace favor::kernels::cuda {

constexpr int kHeld = 16;          // elements of its row that a thread holds
constexpr int kNarrowBlock = 256;  // threads of a block of several groups
constexpr int kMostThreads = 512;  // threads of a block: 128 registers each
constexpr int kWarp = 32;

inline dim3 BlockOfRows(int64_t width) {
  for (const int threads : {8, 16, kWarp}) {
    if (threads * kHeld >= width) return dim3(threads, kNarrowBlock / threads);
  }
  const int64_t warps = (width + kWarp * kHeld - 1) / (kWarp * kHeld);
  return dim3(static_cast<unsigned>(std::min<int64_t>(warps * kWarp, kMostThreads)));
}

// The width of rows [rows, width]. Columns are counted in 32 bits, which saves registers.
inline uint32_t WidthOf(const char* operation, const ConstView& rows) {
  constexpr int64_t kMostWidth = int64_t{1} << 31;
  if (rows.size(1) > kMostWidth) {
    throw Error(ErrorCode::kInvalidData, operation,
                "given rows of " + std::to_string(rows.size(1)) + " elements, expected at most " +
                    std::to_string(kMostWidth));
  }
  return static_cast<uint32_t>(rows.size(1));
}

// Neighbouring threads hold neighbouring vectors of a row. Calls body(index of the first element
// among those that this thread holds, its column) for each vector.
template <int kVector, class Body>
__device__ void ForHeld(uint32_t width, const Body& body) {
#pragma unroll
  for (int i = 0; i < kHeld; i += kVector) {
    const uint32_t column = i * blockDim.x + threadIdx.x * kVector;
    if (column < width) body(i, column);
  }
}

// What a thread holds of a row.
template <class T, int kVector>
class HeldRow {
 public:
  __device__ void Load(const T* row, uint32_t width) {
    ForHeld<kVector>(width,
                     [&](int i, uint32_t column) { vectors_[i / kVector].Load(row + column); });
  }
  __device__ float operator[](int i) const { return vectors_[i / kVector][i % kVector]; }

 private:
  Packed<T, kVector> vectors_[kHeld / kVector];
};

// The columns of a row that is wider than its group can hold: calls body(column) for each vector of
// them.
template <int kVector, class Body>
__device__ void ForRest(uint32_t width, const Body& body) {
  const uint32_t first = kHeld * blockDim.x + threadIdx.x * kVector;
  for (uint32_t column = first; column < width; column += blockDim.x * kVector) body(column);
}

// Replaces values by their sums over the group, the same in every thread and from run to run.
// `turn` begins at 0 and changes with each call within a kernel: the memory of one call is free
// once all threads are in the next.
template <int kCount>
__device__ void SumOverGroup(int& turn, float (&values)[kCount]) {
  constexpr int kMostWarps = kMostThreads / kWarp;
  const auto add_lanes = [&](int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) values[k] += __shfl_xor_sync(~0u, values[k], distance);
    }
  };
  add_lanes(min(blockDim.x, kWarp));
  if (blockDim.x <= kWarp) return;
  __shared__ float parts[2][kCount][kMostWarps];
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) parts[turn][k][threadIdx.x / kWarp] = values[k];
  }
  __syncthreads();
  const int warp = threadIdx.x % kMostWarps;
#pragma unroll
  for (int k = 0; k < kCount; ++k)
    values[k] = warp < blockDim.x / kWarp ? parts[turn][k][warp] : 0.0f;
  add_lanes(kMostWarps);
  turn ^= 1;
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ROW_GROUP_CUH_
