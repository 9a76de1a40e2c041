// Causal passes of calls that forget (causal.cuh).
#ifndef FAVOR_KERNELS_CUDA_FUSED_FORGETTING_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_FORGETTING_CUH_

#include "kernels/cuda/fused/linear.cuh"

namespace favor::kernels::cuda::fused {

void ForgettingOutput(const Call& a, cudaStream_t stream);
void ForgettingQueryGradients(const Call& a, cudaStream_t stream);
void ForgettingKeyGradients(const Call& a, cudaStream_t stream);

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_FORGETTING_CUH_
