#include "kernels/cuda/exact/engines.cuh"

namespace favor::kernels::cuda {

void ExactForwardBf16(const ExactForward& a, const Context& context) {
  ExactForwardTensor<__nv_bfloat16>(a, context);
}
void ExactBackwardBf16(const ExactBackward& a, const Context& context) {
  ExactBackwardTensor<__nv_bfloat16>(a, context);
}

}  // namespace favor::kernels::cuda
