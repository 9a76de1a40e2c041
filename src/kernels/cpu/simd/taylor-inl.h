// The map `taylor` on rows of a panel, for the SIMD target being compiled. Vectors run past the end
// of the pairs of one distance: what they write there is overwritten by the next distance, and what
// they read there is multiplied by the zeros around x. The compiler does not find this in the loops
// of maps/taylor.h.
#if defined(FAVOR_KERNELS_CPU_SIMD_TAYLOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_TAYLOR_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_TAYLOR_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_TAYLOR_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/maps/taylor.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// x is followed by a vector of zeros, and so are the factors afterwards.
HWY_INLINE void TaylorFactors(const float* HWY_RESTRICT x, int64_t dim,
                              float* HWY_RESTRICT factors) {
  const FloatTag d;
  const Floats root = hn::Set(d, static_cast<float>(1 / Taylor::kSqrt2));
  float *linear = factors + 1, *squares = linear + dim, *pairs = squares + dim;
  factors[0] = 1;
  for (int64_t i = 0; i < dim; i += Lanes()) hn::StoreU(hn::LoadU(d, x + i), d, linear + i);
  for (int64_t i = 0; i < dim; i += Lanes()) {
    const Floats value = hn::LoadU(d, x + i);
    hn::StoreU(hn::Mul(hn::Mul(value, value), root), d, squares + i);
  }
  for (int64_t distance = 1; distance < dim; ++distance) {
    for (int64_t i = 0; i < dim - distance; i += Lanes())
      hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, x + i + distance)), d, pairs + i);
    pairs += dim - distance;
  }
}

// A vector of zeros precedes x and follows x and grad_factors; a vector after grad_x may be
// overwritten. `after` sums over partners x[i + distance], `before` over partners x[i − distance].
HWY_INLINE void TaylorBackward(const float* HWY_RESTRICT x, int64_t dim,
                               const float* HWY_RESTRICT grad_factors, float* HWY_RESTRICT grad_x) {
  const FloatTag d;
  const Floats root = hn::Set(d, static_cast<float>(Taylor::kSqrt2));
  const float *linear = grad_factors + 1, *squares = linear + dim;
  for (int64_t i = 0; i < dim; i += Lanes()) {
    Floats after = hn::MulAdd(hn::Mul(root, hn::LoadU(d, squares + i)), hn::LoadU(d, x + i),
                              hn::LoadU(d, linear + i));
    Floats before = hn::Zero(d);
    const float* pairs = squares + dim;
    for (int64_t distance = 1; distance < dim; ++distance) {
      if (i < dim - distance)
        after = hn::MulAdd(hn::LoadU(d, pairs + i), hn::LoadU(d, x + i + distance), after);
      if (i + Lanes() > distance)
        before =
            hn::MulAdd(hn::LoadU(d, pairs + i - distance), hn::LoadU(d, x + i - distance), before);
      pairs += dim - distance;
    }
    hn::StoreU(hn::Add(after, before), d, grad_x + i);
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_TAYLOR_INL_H_
