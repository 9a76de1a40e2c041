// Sums over all threads of a block, in an order that is always the same.
#ifndef FAVOR_KERNELS_CUDA_PARTS_BLOCK_SUMS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_BLOCK_SUMS_CUH_

#include <cstdint>

#include "kernels/cuda/parts/block_threads.cuh"

namespace favor::kernels::cuda {

// The sum in every thread. A block has whole warps, up to 32 of them.
__device__ inline double SumOfBlock(double value) {
  __shared__ double of_warps[kLanes];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned warps = blockDim.x * blockDim.y / kLanes, lane = thread % kLanes;
  value = SumOfWarp(value);
  __syncthreads();  // until no thread reads the sums of a previous call
  if (lane == 0) of_warps[thread / kLanes] = value;
  __syncthreads();
  return SumOfWarp(lane < warps ? of_warps[lane] : 0.0);
}

// The sum of parts[i·stride], 0 ≤ i < count, in every thread of a block of one row.
__device__ inline double SumOfParts(const double* parts, int64_t count, int64_t stride) {
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i * stride];
  return SumOfBlock(sum);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_BLOCK_SUMS_CUH_
