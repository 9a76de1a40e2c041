#include "kernels/cuda/exact/engines.cuh"

namespace favor::kernels::cuda {

void ExactForwardF16(const ExactForward& a, const Context& context) {
  ExactForwardTensor<__half>(a, context);
}
void ExactBackwardF16(const ExactBackward& a, const Context& context) {
  ExactBackwardTensor<__half>(a, context);
}

}  // namespace favor::kernels::cuda
