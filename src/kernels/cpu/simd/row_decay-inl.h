// What the keys of a chunk make those before them forget, for the SIMD target being compiled. Every
// factor is at most 1, and the sums below it are doubles inside the chunk: neither a million keys
// nor a jump costs digits.
#if defined(FAVOR_KERNELS_CPU_SIMD_ROW_DECAY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_ROW_DECAY_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_ROW_DECAY_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_ROW_DECAY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/aligned.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/rows-inl.h"
#include "kernels/head_rows.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Which way a state moves: keys are added to a prefix, which counts up to its last row; in the
// backward pass queries are added to an adjoint, which counts from its first row.
enum class Sweep { kForwards, kBackwards };

// ℓ of the first row acts only on what is before the rows: sums inside them begin behind it.
class RowDecay {
 public:
  explicit RowDecay(int64_t max_rows) : max_rows_(max_rows) {}

  void Load(const HeadKeys& keys, int64_t begin, int64_t end) {
    forgets_ = keys.log_decay != nullptr;
    if (!forgets_) return;
    if (sums_.empty()) Allocate();
    first_ = keys.LogDecay(begin);
    total_ = 0;
    for (int64_t row = begin; row < end; ++row) {
      if (row > begin) total_ += keys.LogDecay(row);
      sums_[static_cast<size_t>(row - begin)] = total_;
    }
    const int64_t count = end - begin;
    Factors(
        count, [this](int64_t row) { return Behind(row); }, to_last_.data());
    Factors(
        count, [this](int64_t row) { return UpTo(row); }, from_first_.data());
  }

  bool forgets() const { return forgets_; }
  double first() const { return first_; }
  double total() const { return total_; }  // Λ without ℓ of the first row
  // P_t, from the row after the first up to this one, and what comes behind it.
  double UpTo(int64_t row) const { return sums_[static_cast<size_t>(row)]; }
  double Behind(int64_t row) const { return total_ - UpTo(row); }
  // From a row to where the state will be, and what the row then counts.
  double ToEnd(Sweep sweep, int64_t row) const {
    return sweep == Sweep::kForwards ? Behind(row) : UpTo(row);
  }
  float Kept(Sweep sweep, int64_t row) const {
    return (sweep == Sweep::kForwards ? to_last_ : from_first_)[static_cast<size_t>(row)];
  }

  // rows_i *= Kept(sweep, i)
  void DecayRows(Sweep sweep, int64_t count, int64_t columns, float* rows, int64_t step) const {
    for (int64_t row = 0; row < count && forgets_; ++row) {
      const float kept = Kept(sweep, row);
      float* HWY_RESTRICT at = rows + row * step;
      for (int64_t i = 0; i < columns; ++i) at[i] *= kept;
    }
  }

  // products[i, j] *= e^{P_i − P_j} for j < i, in strips of rows: what lies left of a strip decays
  // to the strip's first row, and from there.
  void DecayProducts(int64_t count, float* products, int64_t step) {
    if (!forgets_) return;
    Factors(
        count, [&](int64_t row) { return UpTo(row) - UpTo(row / kStripRows * kStripRows); },
        from_strip_.data());
    for (int64_t strip = 0; strip < count; strip += kStripRows) {
      if (strip > 0) MoveTo(strip);
      for (int64_t row = strip; row < std::min(count, strip + kStripRows); ++row) {
        const float kept = from_strip_[static_cast<size_t>(row)];
        float* HWY_RESTRICT line = products + row * step;
        const float* HWY_RESTRICT left = to_strip_.data();
        for (int64_t key = 0; key < strip; ++key) line[key] *= kept * left[key];
        float within[kStripRows];
        Factors(
            row - strip, [&](int64_t i) { return UpTo(row) - UpTo(strip + i); }, within);
        for (int64_t i = 0; i < row - strip; ++i) line[strip + i] *= within[i];
      }
    }
  }

 private:
  static constexpr int64_t kStripRows = kWidestVector;

  void Allocate() {
    sums_.resize(static_cast<size_t>(max_rows_));
    for (auto* factors : {&to_last_, &from_first_, &to_strip_, &from_strip_})
      factors->resize(static_cast<size_t>(PaddedColumns(max_rows_)));
  }

  // factors_i = e^{exponent(i)}
  template <class Exponent>
  static void Factors(int64_t count, const Exponent& exponent, float* factors) {
    const FloatTag d;
    for (int64_t i = 0; i < count; ++i) factors[i] = static_cast<float>(exponent(i));
    for (int64_t i = count; i < PaddedColumns(count); ++i) factors[i] = 0;
    for (int64_t i = 0; i < count; i += Lanes())
      hn::StoreU(Exp(hn::LoadU(d, factors + i)), d, factors + i);
  }

  // Moves to_strip_ from the strip before to this one.
  void MoveTo(int64_t strip) {
    const int64_t before = strip - kStripRows;
    const auto kept = static_cast<float>(std::exp(UpTo(strip) - UpTo(before)));
    for (int64_t key = 0; key < before; ++key) to_strip_[static_cast<size_t>(key)] *= kept;
    Factors(
        kStripRows, [&](int64_t i) { return UpTo(strip) - UpTo(before + i); },
        to_strip_.data() + before);
  }

  int64_t max_rows_;
  bool forgets_ = false;
  double first_ = 0, total_ = 0;
  std::vector<double> sums_;
  AlignedVector<float> to_last_, from_first_;
  // From keys left of a strip to its first row, and from there to each row.
  AlignedVector<float> to_strip_, from_strip_;
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_ROW_DECAY_INL_H_
