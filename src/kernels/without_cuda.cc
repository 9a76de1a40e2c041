// Stands in for the kernels of cuda/ in builds without CUDA: one line for each operation.
#include "core/device.h"
#include "kernels/attention_checks.h"
#include "kernels/exact_attention.h"
#include "kernels/features.h"
#include "kernels/key_statistics.h"
#include "kernels/layer_norm.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"
#include "kernels/prefix_state.h"

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
void CountNotFinite(const FiniteArguments&, const Context&) { Refuse("attention"); }
void CountUnusable(const RangeArguments&, const Context&) { Refuse("attention"); }
void ExactAttention(const AttentionArguments&, const Context&) { Refuse("exact attention"); }
void ExactAttentionBackward(const AttentionGradients&, const Context&) {
  Refuse("exact attention");
}
void Features(const FeatureArguments&, const Context&) { Refuse("features"); }
void FindDeltas(const DeltaArguments&, const Context&) { Refuse("attention"); }
void FindKeyMeans(const KeyMeanArguments&, const Context&) { Refuse("key means"); }
void FindOprfA(const OprfArguments&, const Context&) { Refuse("oprf"); }
void LayerNorm(const LayerNormArguments&, const Context&) { Refuse("layer norm"); }
void LayerNormBackward(const LayerNormGradients&, const Context&) { Refuse("layer norm"); }
void LinearAppend(const LinearArguments&, const Context&) { Refuse("state"); }
void LinearAttention(const LinearArguments&, const Context&) { Refuse("linear attention"); }
void LinearAttentionBackward(const LinearGradients&, const Context&) { Refuse("linear attention"); }
void LinearRead(const LinearArguments&, const Context&) { Refuse("state"); }
void MergeStates(const MergeArguments&, const Context&) { Refuse("state"); }
void SetToNoKeys(const PrefixStates&, const Context&) { Refuse("state"); }

}  // namespace favor::kernels::cuda
