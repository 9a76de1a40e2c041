// The constants of a feature map on a GPU (FeatureConstants::OnGpu).
#ifndef FAVOR_KERNELS_CUDA_DEVICE_FEATURES_H_
#define FAVOR_KERNELS_CUDA_DEVICE_FEATURES_H_

#include "core/device_array.h"
#include "favor/tensor.h"
#include "kernels/features.h"

namespace favor::kernels::cuda {

// A structured ω is applied as a dense matrix: at the sizes of a head ω fits in cache and products
// are free. Tensors are f32 and empty for a row map; `entries` is FeatureConstants::entries().
struct DeviceFeatures {
  Tensor omega;                // [entries, omega rows, dim]
  bool omega_is_bf16 = false;  // every element is representable in bf16
  Tensor offset;               // [entries, features], A‖ω_r‖²
  Tensor argument_scale;       // [entries], B
  Tensor log_normalizer;       // [entries]
  Tensor squared_norm;         // [entries, features], ‖ω_r‖²; maps that take an A only
  Tensor mask_weight;          // [entries, features], HeadFeatures::mask_weight; masked maps only
  DeviceArray<PolynomialBlock> blocks;
  DeviceArray<MonomialRun> runs;
  RowMapTables tables;  // row maps only: the two above
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_DEVICE_FEATURES_H_
