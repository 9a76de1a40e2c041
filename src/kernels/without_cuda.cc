// Stands in for the kernels of cuda/ in builds without CUDA: one line for each operation.
#include "core/device.h"
#include "kernels/features.h"
#include "kernels/layer_norm.h"

namespace favor::kernels::cuda {
namespace {

[[noreturn]] void Refuse(const char* operation) {
  ThrowWithoutCuda(operation, {.type = DeviceType::kCuda});
}

}  // namespace

struct DeviceFeatures {};
std::shared_ptr<const DeviceFeatures> CopyFeatures(const FeatureConstants&, const Context&) {
  Refuse("features");
}
void Features(const FeatureArguments&, const Context&) { Refuse("features"); }
void LayerNorm(const LayerNormArguments&, const Context&) { Refuse("layer norm"); }
void LayerNormBackward(const LayerNormGradients&, const Context&) { Refuse("layer norm"); }

}  // namespace favor::kernels::cuda
