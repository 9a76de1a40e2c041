// Stands for the kernels of cuda/ in builds without CUDA: one line for each operation.
#include "core/device.h"
#include "kernels/features.h"
#include "kernels/layer_norm.h"

namespace favor::kernels::cuda {
namespace {

[[noreturn]] void Refuse(const char* operation) {
  ThrowWithoutCuda(operation, {.kind = DeviceKind::kCuda});
}

}  // namespace

void Features(const HeadFeatures&, const float*, int64_t, const Context&, float*, float*) {
  Refuse("features");
}
void LayerNorm(const LayerNormArguments&, const Context&) { Refuse("layer norm"); }
void LayerNormBackward(const LayerNormGradients&, const Context&) { Refuse("layer norm"); }

}  // namespace favor::kernels::cuda
