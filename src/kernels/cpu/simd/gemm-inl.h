// Matrix products of tiles that lie in cache, for the SIMD target being compiled. Included once per
// target, inside a file that uses hwy/foreach_target.h.
//
//   Multiply      C (+)= A·B, B and C in rows along the lanes. A is read element by element, so its
//                 transpose costs nothing.
//   MultiplyRows  C = A·Bᵀ, A and B in rows along the sum; whole tiles above the diagonal can be
//                 left out.
//
// Rows of B and C are padded to whole vectors of the widest target (PaddedColumns); the padding of
// C is computed from the padding of B.
#if defined(FAVOR_KERNELS_CPU_SIMD_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_GEMM_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_GEMM_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm_types.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;
HWY_INLINE constexpr int64_t Lanes() { return static_cast<int64_t>(hn::MaxLanes(FloatTag())); }

// C ← decay·C + sum with C = data + rest, the rest being what rounding to float lost: both together
// have twice the digits of a float.
HWY_INLINE void AddExactly(Floats sum, Floats decay, float* data, float* rest) {
  const FloatTag d;
  const Floats old = hn::LoadU(d, data);
  const Floats scaled = hn::Mul(old, decay);
  const Floats total = hn::Add(scaled, sum);
  const Floats added = hn::Sub(total, scaled);
  const Floats lost = hn::Add(hn::Sub(scaled, hn::Sub(total, added)), hn::Sub(sum, added));
  const Floats rounded_off = hn::MulSub(old, decay, scaled);
  const Floats low = hn::MulAdd(hn::LoadU(d, rest), decay, hn::Add(lost, rounded_off));
  const Floats high = hn::Add(total, low);
  hn::StoreU(high, d, data);
  hn::StoreU(hn::Sub(low, hn::Sub(high, total)), d, rest);
}

// C[rows, columns] (+)= A[rows, depth]·B[depth, columns].
void Multiply(const Operand& a, const float* b, int64_t b_step, int64_t rows, int64_t columns,
              int64_t depth, const Result& c);

// C[rows, columns] = A[rows, depth]·B[columns, depth]ᵀ. The padding of A's rows up to a whole
// vector is zero, the padding of B's finite. B and C hold a multiple of 4 rows and columns. With
// `lower`, elements above the diagonal are not all computed.
void MultiplyRows(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t rows,
                  int64_t columns, int64_t depth, bool lower, float* c, int64_t c_step);

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_GEMM_INL_H_
