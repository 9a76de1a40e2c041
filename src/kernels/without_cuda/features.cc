// Stands for cuda/features.cu in builds without CUDA.
#include "kernels/features.h"
#include "core/device.h"

namespace favor::kernels::cuda {

void Features(const HeadFeatures&, const float*, int64_t, float*, float*) {
  ThrowWithoutCuda("features", {.kind = DeviceKind::kCuda});
}

}  // namespace favor::kernels::cuda
