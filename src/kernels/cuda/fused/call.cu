#include "kernels/cuda/fused/call.h"

#include <array>
#include <cmath>

#include "kernels/cuda/device_features.h"

namespace favor::kernels::cuda::fused {
namespace {

bool DeviceFits(int device) {
  constexpr int kMostDevices = 64;
  static std::array<int8_t, kMostDevices> fits{};  // 0: not known; threads store the same
  if (device < 0 || device >= kMostDevices) return Fits(device);
  auto& fit = fits[static_cast<size_t>(device)];
  if (fit == 0) fit = Fits(device) ? 1 : -1;
  return fit > 0;
}

constexpr int64_t kPiece = 8;  // elements that are copied at a time

// Whether rows begin where pieces of 16 bytes can be copied.
bool IsAligned(const general::Array& x) {
  return x.column == 1 && x.batch % kPiece == 0 && x.head % kPiece == 0 && x.row % kPiece == 0 &&
         reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
}
bool TakesInput(const general::Array& x) {
  return x.data == nullptr || (x.type == DataType::kBF16 && IsAligned(x));
}
bool TakesOutput(const general::Array& x) {
  return x.data == nullptr ||
         ((x.type == DataType::kBF16 || x.type == DataType::kF32) && IsAligned(x));
}

Rows RowsOf(const general::Array& x) {
  return {.data = x.data,
          .batch = x.batch,
          .head = x.head,
          .row = x.row,
          .f32 = x.type == DataType::kF32};
}

bool TakesArrays(const general::Call& a) {
  return TakesInput(a.q) && TakesInput(a.k) && TakesInput(a.v) && TakesInput(a.grad_out) &&
         TakesOutput(a.out) && TakesOutput(a.grad_q) && TakesOutput(a.grad_k) &&
         TakesOutput(a.grad_v);
}

}  // namespace

bool Takes(const general::Call& a, const FeatureConstants& constants, const Context& context) {
  return IsFused(constants.map(), a.dim, a.value_dim, a.map.features) &&
         constants.OnGpu(context).omega_is_bf16 && a.normalize && a.least_denominator == 0 &&
         a.turns == 1 && !a.add_to_queries && !a.add_to_keys && a.key_mean.data == nullptr &&
         a.oprf_a.data == nullptr && a.numerator.data == nullptr && TakesArrays(a) &&
         DeviceFits(context.device().index);
}

Call CallOf(const general::Call& a, const Cut& cut, int64_t state_stride,
            const SegmentStates& states, int* flags) {
  return {
      .q = RowsOf(a.q),
      .k = RowsOf(a.k),
      .v = RowsOf(a.v),
      .out = RowsOf(a.out),
      .grad_out = RowsOf(a.grad_out),
      .grad_q = RowsOf(a.grad_q),
      .grad_k = RowsOf(a.grad_k),
      .grad_v = RowsOf(a.grad_v),
      .mask = static_cast<const float*>(a.mask.data),
      .mask_batch = a.mask.batch,
      .mask_head = a.mask.head,
      .mask_row = a.mask.row,
      .heads = static_cast<int>(a.heads),
      .kv_heads = static_cast<int>(a.heads / a.sharing),
      .groups = static_cast<int>(a.groups),
      .query_length = a.query_length,
      .key_length = a.key_length,
      .dim = a.dim,
      .value_dim = a.value_dim,
      .features = a.map.features,
      .omega = a.map.omega,
      .offset = a.map.offset,
      .argument_scale = a.map.argument_scale,
      .log_normalizer = a.map.log_normalizer,
      .entries = static_cast<int>(a.map.entries),
      .function = a.map.is_flat ? Function::kRelu : Function::kExponential,
      .norm_slope = static_cast<float>(a.map.norm_slope),
      .sqrt_scale = static_cast<float>(a.sqrt_scale),
      .epsilon = a.map.epsilon,
      .most_square = static_cast<float>(kLargestNorm / (std::fabs(a.scale) * a.dim)),
      .segments = cut.segments,
      .segment_rows = cut.rows,
      .state_stride = state_stride,
      .c = states.c,
      .z = states.z,
      .s = states.s,
      .log_decay = states.log_decay,
      .log_sum = static_cast<float*>(a.log_sum.data),
      .delta = static_cast<const float*>(a.delta.data),
      .flags = flags,
  };
}

Flags::Flags(const Context& context, int64_t count) : count_(count), memory_(context, count) {
  Check("linear attention",
        cudaMemsetAsync(memory_.data(), 0, static_cast<size_t>(count) * sizeof(int),
                        static_cast<cudaStream_t>(UseStream(context))));
}

}  // namespace favor::kernels::cuda::fused
