// Writing results of rows to the caller's array, for the SIMD target being compiled.
#if defined(FAVOR_KERNELS_CPU_SIMD_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_OUTPUT_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_OUTPUT_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_OUTPUT_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/output_row.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Writes a row of numerators. The common case, a normalised row of floats, is a multiplication by
// 1/denominator.
template <class LogScale, class T>
HWY_INLINE RowCounts Store(const HeadOutput& out, int64_t row, int64_t value_dim, bool has_keys,
                           const LogScale& log_scale, T* numerator, double denominator) {
  const View& to = out.output;
  const bool plain = out.normalize && out.least_denominator == 0 && out.log_scale == nullptr &&
                     has_keys && denominator > 0 && to.type() == DataType::kF32 &&
                     to.stride(1) == 1;
  if (!plain) {
    return StoreRow(
        out, row, value_dim, has_keys, log_scale(), [&](int64_t v) { return numerator[v]; },
        denominator);
  }
  if (out.log_sum != nullptr) out.log_sum[row] = log_scale() + std::log(denominator);
  float* o = static_cast<float*>(to.data()) + row * to.stride(0);
  const auto inverse = static_cast<T>(1 / denominator);
  int32_t largest = 0;  // as integers, infinity and NaN are the largest absolute values
  for (int64_t v = 0; v < value_dim; ++v) {
    o[v] = static_cast<float>(numerator[v] * inverse);
    largest = std::max(largest, std::bit_cast<int32_t>(o[v]) & 0x7fffffff);
  }
  RowCounts counts;
  counts.unusable = largest >= 0x7f800000 ? 1 : 0;
  return counts;
}

HWY_INLINE RowCounts StoreEmpty(const HeadOutput& out, int64_t row, int64_t value_dim) {
  return StoreRow(
      out, row, value_dim, false, -INFINITY, [](int64_t) { return 0.0; }, 0);
}

// Writes scale·from [count, columns] to rows of the caller's array. Returns the number of rows that
// are not finite.
HWY_INLINE int64_t StoreGradient(const View& to, int64_t begin, int64_t count, const float* from,
                                 int64_t step, double scale, bool add) {
  if (to.empty()) return 0;
  const int64_t columns = to.size(1);
  int64_t unusable = 0;
  for (int64_t row = 0; row < count; ++row, from += step) {
    int32_t largest = 0;
    if (to.type() == DataType::kF32 && to.stride(1) == 1) {
      float* out = static_cast<float*>(to.data()) + (begin + row) * to.stride(0);
      const auto factor = static_cast<float>(scale);
      for (int64_t i = 0; i < columns; ++i) {
        out[i] = factor * from[i] + (add ? out[i] : 0.0f);
        largest = std::max(largest, std::bit_cast<int32_t>(out[i]) & 0x7fffffff);
      }
    } else {
      for (int64_t i = 0; i < columns; ++i) {
        const double value = scale * from[i] + (add ? ElementAt(to, begin + row, i) : 0);
        SetElement(to, begin + row, i, value);
        largest = std::max(largest, std::bit_cast<int32_t>(static_cast<float>(value)) & 0x7fffffff);
      }
    }
    unusable += largest >= 0x7f800000 ? 1 : 0;
  }
  return unusable;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_OUTPUT_INL_H_
