// Passes over rows of floats, for the SIMD target being compiled: loading, maxima, exponentials.
// Rows are padded to whole vectors.
#if defined(FAVOR_KERNELS_CPU_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_ROWS_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_ROWS_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_ROWS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/element.h"
#include "favor/tensor.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"
#include "kernels/head_rows.h"
#include "kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// e^x for x ≤ 88.37 as in vector_math::Exp, with fused multiply-add if the machine has it: relative
// error below 1.6e-7; 0 below −87.33, where floats turn subnormal, and at −∞.
HWY_INLINE Floats Exp(Floats x) {
  namespace vm = vector_math;
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto normal = hn::Ge(x, hn::Set(d, vm::kLeastExpArgument));
  const Floats shifted = hn::MulAdd(x, hn::Set(d, vm::kLog2E), hn::Set(d, vm::kRound));
  const Floats n = hn::Sub(shifted, hn::Set(d, vm::kRound));
  Floats r = hn::NegMulAdd(n, hn::Set(d, vm::kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, vm::kLn2Low), r);
  Floats p = hn::Set(d, vm::kExpCoefficients[4]);
  p = hn::MulAdd(p, r, hn::Set(d, vm::kExpCoefficients[3]));
  p = hn::MulAdd(p, r, hn::Set(d, vm::kExpCoefficients[2]));
  p = hn::MulAdd(p, r, hn::Set(d, vm::kExpCoefficients[1]));
  p = hn::MulAdd(p, r, hn::Set(d, vm::kExpCoefficients[0]));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const Floats e = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // The low bits of `shifted` are n: moved up, they add n to the exponent of e.
  const auto bits = hn::Add(hn::BitCast(di, e), hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenElseZero(normal, hn::BitCast(d, bits));
}

HWY_INLINE float LargestLane(Floats values) {
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), values));
}
HWY_INLINE float SumOfLanes(Floats values) {
  return hn::GetLane(hn::SumOfLanes(FloatTag(), values));
}

// Loads one row of a matrix of any type as (x − mean)·scale, rounded once, padded with zeros.
HWY_INLINE void LoadRow(const ConstView& from, int64_t row, const double* mean, double scale,
                        int64_t padded, float* HWY_RESTRICT to) {
  const int64_t columns = from.size(1);
  const bool floats = from.type() == DataType::kF32 && from.stride(1) == 1;
  if (floats && mean == nullptr) {
    const float* HWY_RESTRICT x = static_cast<const float*>(from.data()) + row * from.stride(0);
    if (scale == 1) {
      std::copy_n(x, columns, to);
    } else {  // x·scale from the two halves of scale
      const FloatTag d;
      const auto high = static_cast<float>(scale);
      const Floats scale_high = hn::Set(d, high),
                   scale_low = hn::Set(d, static_cast<float>(scale - high));
      int64_t i = 0;
      for (; i + Lanes() <= columns; i += Lanes()) {
        const Floats value = hn::LoadU(d, x + i);
        hn::StoreU(hn::MulAdd(value, scale_high, hn::Mul(value, scale_low)), d, to + i);
      }
      for (; i < columns; ++i) to[i] = static_cast<float>(x[i] * scale);
    }
  } else if (floats) {
    const float* x = static_cast<const float*>(from.data()) + row * from.stride(0);
    for (int64_t i = 0; i < columns; ++i) to[i] = static_cast<float>((x[i] - mean[i]) * scale);
  } else {
    for (int64_t i = 0; i < columns; ++i) {
      to[i] =
          static_cast<float>((ElementAt(from, row, i) - (mean != nullptr ? mean[i] : 0)) * scale);
    }
  }
  std::fill(to + columns, to + padded, 0.0f);
}

// Prefetches a row that will be loaded soon; past the end it does nothing.
HWY_INLINE void PrefetchRow(const ConstView& from, int64_t row) {
  if (row >= from.size(0)) return;
  const int64_t item = ItemBytes(from.type());
  const auto* begin = static_cast<const char*>(from.data()) + row * from.stride(0) * item;
  for (int64_t byte = 0; byte < from.size(1) * item; byte += 64) hwy::Prefetch(begin + byte);
}

HWY_INLINE void PrefetchRows(const ConstView& from, RowRange rows) {
  for (int64_t row = rows.begin; row < rows.end; ++row) PrefetchRow(from, row);
}

// Σ x², in double; the padding is zero.
HWY_INLINE double SquareSum(const float* x, int64_t padded) {
#if HWY_TARGET == HWY_SCALAR
  double total = 0;
  for (int64_t i = 0; i < padded; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
#else
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  const auto step = static_cast<int64_t>(hn::MaxLanes(dd));
  auto even = hn::Zero(dd), odd = even;
  for (int64_t i = 0; i < padded; i += 2 * step) {
    const auto a = hn::PromoteTo(dd, hn::LoadU(half, x + i)),
               b = hn::PromoteTo(dd, hn::LoadU(half, x + i + step));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  return hn::GetLane(hn::SumOfLanes(dd, hn::Add(even, odd)));
#endif
}

// Whether all |x| are at most `limit`; false for NaN. As integers, floats of one sign keep their
// order, with infinity and NaN last.
HWY_INLINE bool IsWithin(const float* x, int64_t padded, float limit) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  auto largest = hn::Zero(di);
  for (int64_t i = 0; i < padded; i += Lanes())
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  return hn::GetLane(hn::MaxOfLanes(di, largest)) <= std::bit_cast<int32_t>(limit);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_ROWS_INL_H_
