// Launches of the kernels of exact attention.
#ifndef FAVOR_KERNELS_CUDA_EXACT_LAUNCH_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_LAUNCH_CUH_

#include <cstdint>

#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {

constexpr char kExactName[] = "exact attention";

inline int64_t DivideUp(int64_t count, int64_t by) { return (count + by - 1) / by; }

inline int64_t Processors() {
  int device = 0, processors = 0;
  Check(kExactName, cudaGetDevice(&device));
  Check(kExactName, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  return processors;
}

template <class Arguments>
void LaunchBlocks(void (*kernel)(Arguments), int64_t blocks, int threads, int shared_bytes,
                  const Arguments& arguments, const Context& context) {
  constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
  if (blocks > kMostBlocks) {
    throw Error(ErrorCode::kInvalidData, kExactName,
                "given " + std::to_string(blocks) + " tiles of rows, expected at most " +
                    std::to_string(kMostBlocks));
  }
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  Check(kExactName,
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  kernel<<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(shared_bytes), stream>>>(
      arguments);
  Check(kExactName);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_LAUNCH_CUH_
