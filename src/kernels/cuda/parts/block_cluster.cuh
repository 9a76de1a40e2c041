// Thread blocks of one launch that read and write each other's shared memory. GPUs before sm_90
// have none: a block is alone there.
#ifndef FAVOR_KERNELS_CUDA_PARTS_BLOCK_CLUSTER_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_BLOCK_CLUSTER_CUH_

#include <cooperative_groups.h>

#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {

constexpr int kMostClusterBlocks = 8;  // as many as every GPU with clusters has

// For all threads of all blocks of a cluster. What was written before a block arrives is seen by
// those that have waited.
struct BlockCluster {
  __device__ static void Arrive() {
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    cooperative_groups::this_cluster().barrier_arrive();
#endif
  }
  __device__ static void Wait() {
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().barrier_wait();
#else
    __syncthreads();
#endif
  }
  // What `own`, in shared memory, is in block `rank`. That block must have begun and must not end
  // before the access.
  template <class T>
  __device__ static T* Of(T* own, int rank) {
#if __CUDA_ARCH__ >= 900
    return cooperative_groups::this_cluster().map_shared_rank(own, static_cast<unsigned>(rank));
#else
    return own;
#endif
  }
};

inline bool HasBlockClusters(const char* operation) {
  int device = 0, major = 0;
  Check(operation, cudaGetDevice(&device));
  Check(operation, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major >= 9;
}

// Launches `blocks` blocks with `shared_bytes` of dynamic shared memory, `cluster` neighbours each
// in a cluster. Clusters of one need none.
template <class Arguments>
void LaunchClusters(const char* operation, void (*kernel)(Arguments), int64_t blocks, int cluster,
                    int threads, int64_t shared_bytes, const Arguments& arguments,
                    const Context& context) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = StreamOf(context);
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  Check(operation, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared_bytes)));
  Check(operation, cudaLaunchKernelEx(&config, kernel, arguments));
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_BLOCK_CLUSTER_CUH_
