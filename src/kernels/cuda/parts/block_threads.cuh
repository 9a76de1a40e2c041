// The threads of a block of the general kernels, and sums over a warp.
#ifndef FAVOR_KERNELS_CUDA_PARTS_BLOCK_THREADS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_BLOCK_THREADS_CUH_

namespace favor::kernels::cuda {

constexpr int kBlockThreads = 256, kLanes = 32, kWarps = kBlockThreads / kLanes;

__device__ inline double SumOfWarp(double value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}
__device__ inline double MaxOfWarp(double value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = fmax(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_BLOCK_THREADS_CUH_
