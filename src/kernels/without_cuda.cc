// Stands in for the kernels of cuda/ in builds without CUDA: one line for each operation.
#include "core/device.h"
#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/append_column.h"
#include "kernels/attention_checks.h"
#include "kernels/baseline_attention.h"
#include "kernels/column_sums.h"
#include "kernels/convolution.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/exact_attention.h"
#include "kernels/features.h"
#include "kernels/gradient_norm.h"
#include "kernels/key_statistics.h"
#include "kernels/last_rows.h"
#include "kernels/layer_norm.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"
#include "kernels/log_decay.h"
#include "kernels/matmul.h"
#include "kernels/mean_pool.h"
#include "kernels/positions.h"
#include "kernels/prefix_state.h"
#include "kernels/rows.h"
#include "kernels/scale_rows.h"
#include "kernels/squared_error.h"

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
void Activate(const ActivationArguments&, const Context&) { Refuse("activation"); }
void ActivateBackward(const ActivationGradients&, const Context&) { Refuse("activation"); }
void AdamW(const AdamWArguments&, const Context&) { Refuse("AdamW"); }
void AddColumnSums(const ColumnSumsArguments&, const Context&) { Refuse("column sums"); }
void AddGradientNorm(const GradientNormArguments&, const Context&) { Refuse("gradient norm"); }
void AddWaves(const AddWavesArguments&, const Context&) { Refuse("positions"); }
void AppendColumn(const AppendColumnArguments&, const Context&) { Refuse("append column"); }
void AppendColumnBackward(const AppendColumnGradients&, const Context&) { Refuse("append column"); }
void Convolution(const ConvolutionArguments&, const Context&) { Refuse("convolution"); }
void ConvolutionBackward(const ConvolutionGradients&, const Context&) { Refuse("convolution"); }
void Copy(const CopyArguments&, const Context&) { Refuse("copy"); }
void CountNotFinite(const FiniteArguments&, const Context&) { Refuse("attention"); }
void CountUnusable(const RangeArguments&, const Context&) { Refuse("attention"); }
void CrossEntropy(const CrossEntropyArguments&, const Context&) { Refuse("cross entropy"); }
void Dropout(const DropoutArguments&, const Context&) { Refuse("dropout"); }
void Embedding(const EmbeddingArguments&, const Context&) { Refuse("embedding"); }
void EmbeddingBackward(const EmbeddingGradients&, const Context&) { Refuse("embedding"); }
void ExactAttention(const AttentionArguments&, const Context&) { Refuse("exact attention"); }
void ExactAttentionBackward(const AttentionGradients&, const Context&) {
  Refuse("exact attention");
}
void Features(const FeatureArguments&, const Context&) { Refuse("features"); }
void FindDeltas(const DeltaArguments&, const Context&) { Refuse("attention"); }
void FindKeyMeans(const KeyMeanArguments&, const Context&) { Refuse("key means"); }
void FindOprfA(const OprfArguments&, const Context&) { Refuse("oprf"); }
void GatherRows(const GatherArguments&, const Context&) { Refuse("gather"); }
void IdentityAttention(const AttentionArguments&, const Context&) { Refuse("identity attention"); }
void IdentityAttentionBackward(const AttentionGradients&, const Context&) {
  Refuse("identity attention");
}
void KeepLastRows(const KeepLastRowsArguments&, const Context&) { Refuse("last rows"); }
void LayerNorm(const LayerNormArguments&, const Context&) { Refuse("layer norm"); }
void LayerNormBackward(const LayerNormGradients&, const Context&) { Refuse("layer norm"); }
void LinearAppend(const LinearArguments&, const Context&) { Refuse("state"); }
void LinearAttention(const LinearArguments&, const Context&) { Refuse("linear attention"); }
void LinearAttentionBackward(const LinearGradients&, const Context&) { Refuse("linear attention"); }
void LinearRead(const LinearArguments&, const Context&) { Refuse("state"); }
void LogDecay(const LogDecayArguments&, const Context&) { Refuse("log decay"); }
void LogDecayBackward(const LogDecayGradients&, const Context&) { Refuse("log decay"); }
void Matmul(const MatmulArguments&, const Context&) { Refuse("matmul"); }
void MeanPool(const MeanPoolArguments&, const Context&) { Refuse("mean pool"); }
void MeanPoolBackward(const MeanPoolGradients&, const Context&) { Refuse("mean pool"); }
void MergeStates(const MergeArguments&, const Context&) { Refuse("state"); }
void Rotate(const RotateArguments&, const Context&) { Refuse("rotation"); }
void ScaleRows(const ScaleRowsArguments&, const Context&) { Refuse("scale rows"); }
void ScaleRowsBackward(const ScaleRowsGradients&, const Context&) { Refuse("scale rows"); }
void ScatterRows(const ScatterArguments&, const Context&) { Refuse("scatter"); }
void SetToNoMaxima(const PrefixStates&, const Context&) { Refuse("state"); }
void SquaredError(const SquaredErrorArguments&, const Context&) { Refuse("squared error"); }
void Waves(const WavesArguments&, const Context&) { Refuse("positions"); }
void Zero(const ZeroArguments&, const Context&) { Refuse("zero"); }

}  // namespace favor::kernels::cuda
