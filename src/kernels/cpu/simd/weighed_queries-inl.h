// Queries that read keys whose exponents are relative to maxima, for the SIMD target being
// compiled.
#if defined(FAVOR_KERNELS_CPU_SIMD_WEIGHED_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_WEIGHED_QUERIES_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_WEIGHED_QUERIES_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_WEIGHED_QUERIES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/aligned.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/features-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
#include "kernels/head_rows.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// A row with a smaller denominator may have lost its keys to rounding: the maxima cover keys that
// it does not see.
constexpr float kLeastDenominator = 0x1p-90f;
constexpr float kLeastExponent = -62.4f;  // log of the above

// Whether the denominator of a row shows that its keys were lost. Where all features have one
// exponent, it can be exactly 0 for other reasons.
HWY_INLINE bool DenominatorTells(const MapEntry& map) {
  return map.traits->info.nonnegative || !map.flat;
}

// Queries read against maxima c: features, then weights w = exp(F − ρ) g.
class WeighedQueries {
 public:
  WeighedQueries(const HeadFeatures& head, int64_t max_rows, const Context& context)
      : head_(head),
        panel_(head, max_rows, /*backward=*/false, context),
        rho_(static_cast<size_t>(max_rows)),
        denominator_(rho_.size()) {}

  // Returns the number of unusable rows.
  int64_t Load(const HeadQueries& rows, int64_t begin, int64_t end) {
    count_ = end - begin;
    rows_ = &rows;
    begin_ = begin;
    panel_.Compute(FeatureRole::kQuery, rows.queries, begin, count_, nullptr, rows.sqrt_scale,
                   nullptr);
    int64_t unusable = 0;
    for (int64_t row = 0; row < count_; ++row)
      unusable += 2 * panel_.HalfNorm(row) <= kLargestNorm ? 0 : 1;
    return unusable;
  }

  // Computes weights, and their products with z.
  void Weigh(std::span<const double> c, const float* z) {
    base_ = -INFINITY;
    for (size_t r = 0; r < c.size(); ++r) base_ = std::max(base_, c[r] + panel_.offset()[r]);
    panel_.SetFeatureShift(c, 1, base_);
    for (int64_t row = 0; row < count_; ++row) {
      const auto i = static_cast<size_t>(row);
      PrefetchRow(rows_->queries, begin_ + count_ + row);  // one of the next panel
      rho_[i] = panel_.LargestOfRow(row);
      denominator_[i] = panel_.WeighAndDot(row, -rho_[i], z);
    }
  }

  int64_t count() const { return count_; }
  const FeaturePanel& panel() const { return panel_; }
  float& Denominator(int64_t row) { return denominator_[static_cast<size_t>(row)]; }
  // ρ, the true logarithm: normalisers and the shift of centred keys included.
  double LogScale(const HeadQueries& rows, int64_t begin, int64_t row) const {
    return rho_[static_cast<size_t>(row)] + base_ + panel_.NormTerm(row) +
           2 * head_.log_normalizer + rows.MeanShift(begin + row);
  }

 private:
  const HeadFeatures& head_;
  FeaturePanel panel_;
  AlignedVector<float> rho_, denominator_;
  double base_ = 0;
  const HeadQueries* rows_ = nullptr;
  int64_t begin_ = 0, count_ = 0;
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_WEIGHED_QUERIES_INL_H_
