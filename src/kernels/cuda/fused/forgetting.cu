// Causal passes that forget: a file of its own, because compiling them takes long.
#include "kernels/cuda/fused/forgetting.cuh"

#include "kernels/cuda/fused/causal.cuh"

namespace favor::kernels::cuda::fused {

void ForgettingOutput(const Call& a, cudaStream_t stream) {
  LaunchCausal<Pass::kOutput, /*kForgets=*/true>(a, stream);
}
void ForgettingQueryGradients(const Call& a, cudaStream_t stream) {
  LaunchCausal<Pass::kQueryGradients, /*kForgets=*/true>(a, stream);
}
void ForgettingKeyGradients(const Call& a, cudaStream_t stream) {
  LaunchCausal<Pass::kKeyGradients, /*kForgets=*/true>(a, stream);
}

}  // namespace favor::kernels::cuda::fused
