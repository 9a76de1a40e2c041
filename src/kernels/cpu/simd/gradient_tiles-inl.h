// What kernels of gradients of linear attention share, for the SIMD target being compiled.
#if defined(FAVOR_KERNELS_CPU_SIMD_GRADIENT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_GRADIENT_TILES_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_GRADIENT_TILES_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_GRADIENT_TILES_INL_H_
#endif

#include <cstdint>

#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/linear_state-inl.h"
#include "kernels/head_rows.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Weights with exponents up to here leave room for products in float; beyond, the chunk is halved.
constexpr float kLargestExponent = 62.4f, kWeightLimit = 80;

// Returns 1 if some weight exceeds the range of floats. This can happen to unnormalised weights,
// and for maps whose denominators can be tiny: signed ones, and those without exponents. Other
// weights are at most 1.
HWY_INLINE int64_t Beyond(const LinearHead& head, AppendedRows& rows,
                          const HeadGradients& gradients) {
  const MapEntry& map = *head.features.map;
  const bool bounded = gradients.normalized && !map.flat && map.traits->info.nonnegative;
  return !bounded && rows.AnyWeightBeyond(kWeightLimit) ? 1 : 0;
}

// Buffers of a panel of gradients.
struct GradientTiles {
  GradientTiles(const LinearHead& head, int64_t rows, int64_t value_dim)
      : x_step(RowStep(head.features.dim)),
        value_step(RowStep(value_dim)),
        weight_step(RowStep(head.features.width)),
        product_step(RowStep(rows)),
        memory(head.context, rows * (x_step + value_step + weight_step + 2 * product_step)),
        grad_x(memory.data()),
        grad_value(grad_x + rows * x_step),
        grad_weights(grad_value + rows * value_step),
        products(grad_weights + rows * weight_step),
        weight_products(products + rows * product_step) {}

  int64_t x_step, value_step, weight_step, product_step;
  Scratch<float> memory;
  float *grad_x, *grad_value;
  float* grad_weights;                // [rows, width]
  float *products, *weight_products;  // [rows, rows]: products of values, of weights
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_GRADIENT_TILES_INL_H_
