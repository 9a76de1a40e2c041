// Rows of an array of any type as threads load them: eight neighbouring elements at a time. A row
// is shared by a part of a warp, and all threads of a warp take part in every step.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_

#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda::general {

constexpr int kVector = 8, kRowThreads = 256;

// Threads that share a row, a power of two up to a warp.
inline int LanesOf(int64_t columns) {
  int lanes = 1;
  while (lanes < 32 && lanes * kVector < columns) lanes *= 2;
  return lanes;
}

// Whether every vector of every row begins at a multiple of 16 bytes.
inline bool HasVectors(const ConstView& view) {
  const int64_t rank = view.shape().rank();
  bool aligned = reinterpret_cast<uintptr_t>(view.data()) % 16 == 0 &&
                 view.type() != DataType::kF64 && view.stride(rank - 1) == 1 &&
                 view.size(rank - 1) % kVector == 0;
  for (int64_t axis = 0; axis + 1 < rank; ++axis) aligned &= view.stride(axis) % kVector == 0;
  return aligned;
}

// Elements column … column + 7 of the row that begins at `at`; 0 beyond its end.
__device__ inline void LoadVector(const Array& array, bool has_vectors, int64_t at, int column,
                                  int columns, float (&values)[kVector]) {
  if (has_vectors && array.type == DataType::kF32) {
    const auto* from =
        reinterpret_cast<const float4*>(static_cast<const float*>(array.data) + at + column);
    const float4 low = from[0], high = from[1];
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
  if (has_vectors) {
    const uint4 bits =
        *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(array.data) + at + column);
    const uint32_t words[] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const auto half = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
      values[i] = array.type == DataType::kBF16 ? __bfloat162float(__ushort_as_bfloat16(half))
                                                : __half2float(__ushort_as_half(half));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    values[i] = column + i < columns
                    ? static_cast<float>(array.Load(at + (column + i) * array.column))
                    : 0.0f;
  }
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_
