// Causal passes that forget nothing, and the choice between them and those that do.
#include <algorithm>

#include "kernels/cuda/fused/causal.cuh"
#include "kernels/cuda/fused/forgetting.cuh"

namespace favor::kernels::cuda::fused {

bool Fits(int device) {
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes >=
         std::max({BytesOf<Layout<1, 1>>(), BytesOf<Layout<1, 2>>(), BytesOf<Layout<2, 1>>()});
}

void CausalOutput(const Call& a, cudaStream_t stream) {
  if (a.decay != nullptr) return ForgettingOutput(a, stream);
  LaunchCausal<Pass::kOutput, /*kForgets=*/false>(a, stream);
}
void CausalQueryGradients(const Call& a, cudaStream_t stream) {
  if (a.decay != nullptr) return ForgettingQueryGradients(a, stream);
  LaunchCausal<Pass::kQueryGradients, /*kForgets=*/false>(a, stream);
}
void CausalKeyGradients(const Call& a, cudaStream_t stream) {
  if (a.decay != nullptr) return ForgettingKeyGradients(a, stream);
  LaunchCausal<Pass::kKeyGradients, /*kForgets=*/false>(a, stream);
}

}  // namespace favor::kernels::cuda::fused
