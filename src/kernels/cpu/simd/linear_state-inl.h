// The two halves of every linear attention kernel, for the SIMD target being compiled: rows that
// are added to a state, and the state that they are added to.
#if defined(FAVOR_KERNELS_CPU_SIMD_LINEAR_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_LINEAR_STATE_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_LINEAR_STATE_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_LINEAR_STATE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/aligned.h"
#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/features-inl.h"
#include "kernels/cpu/simd/row_decay-inl.h"
#include "kernels/cpu/simd/rows-inl.h"
#include "kernels/head_rows.h"
#include "kernels/prefix_state.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// A state's c stays where it is while exponents exceed it by no more than this: weights of a few
// dozen are as good as 1, and sums are rescaled less often.
constexpr float kSlack = 4;
// The most that a c may fall within a chunk, by forgetting: weights were computed relative to the
// c before. Up to kMildDecay it falls with Λ: weights relative to it are at most e^(kSlack + 8).
constexpr double kLargestFall = 40, kMildDecay = 8;

// Rows whose features, times values, are summed into a state: keys with their values, or (in the
// backward pass) queries with gradients. Row i has the exponent E_ir + shift_i, the value row
// values_i and the weight multiple_i in z: 1 for a key, δ_i for a query. The multiple is also
// stored after the last element of the value row.
class AppendedRows {
 public:
  // `forgets`: there will be a decay.
  AppendedRows(const HeadFeatures& head, int64_t max_rows, int64_t value_dim, bool backward,
               const Context& context, bool forgets = false)
      : head_(head),
        panel_(head, (max_rows + 3) / 4 * 4, backward, context),
        value_dim_(value_dim),
        value_step_(RowStep(value_dim)),
        values_(context, (max_rows + 3) / 4 * 4 * value_step_),
        decayed_values_(context, forgets ? max_rows * value_step_ : 1),
        shift_(static_cast<size_t>(max_rows)),
        multiple_(shift_.size()),
        exists_(shift_.size()),
        end_weight_(shift_.size()),
        end_shift_(shift_.size()),
        maximum_(static_cast<size_t>(head.width)),
        end_(maximum_.size()),
        largest_(static_cast<size_t>(PaddedColumns(head.width))),
        sums_(largest_.size()) {}

  // LoadKeys and LoadQueries return the number of unusable rows. If `decay` is given, exponents are
  // those behind the last key, or before the first query.
  int64_t LoadKeys(const HeadKeys& rows, int64_t begin, int64_t end,
                   const RowDecay* decay = nullptr) {
    count_ = end - begin;
    next_ = end;
    source_ = &rows.keys;
    values_source_ = &rows.values;
    panel_.Compute(FeatureRole::kKey, rows.keys, begin, count_, rows.mean, rows.sqrt_scale,
                   rows.mask);
    int64_t unusable = 0;
    for (int64_t row = 0; row < count_; ++row) {
      exists_[static_cast<size_t>(row)] = rows.mask == nullptr || rows.mask[begin + row] != 0;
      const bool usable =
          LoadValue(rows.values, begin, row) && 2 * panel_.HalfNorm(row) <= kLargestNorm;
      SetMultiple(row, 1);
      unusable += usable ? 0 : 1;
    }
    SetShifts([&](int64_t row) {
      return panel_.NormTerm(row) + (decay != nullptr && decay->forgets() ? decay->Behind(row) : 0);
    });
    return unusable;
  }

  int64_t LoadQueries(const HeadQueries& rows, const HeadGradients& gradients, int64_t begin,
                      int64_t end, const RowDecay* decay = nullptr) {
    count_ = end - begin;
    next_ = end;
    source_ = &rows.queries;
    values_source_ = &gradients.grad_output;
    panel_.Compute(FeatureRole::kQuery, rows.queries, begin, count_, nullptr, rows.sqrt_scale,
                   nullptr);
    int64_t unusable = 0;
    for (int64_t row = 0; row < count_; ++row) {
      exists_[static_cast<size_t>(row)] = gradients.log_sum[begin + row] < INFINITY;
      unusable += LoadValue(gradients.grad_output, begin, row) ? 0 : 1;
      SetMultiple(row, static_cast<float>(gradients.delta[begin + row]));
    }
    SetShifts([&](int64_t row) {
      return panel_.NormTerm(row) + 2 * head_.log_normalizer + rows.MeanShift(begin + row) -
             gradients.log_sum[begin + row] +
             (decay != nullptr && decay->forgets() ? decay->UpTo(row) : 0);
    });
    return unusable;
  }

  // The c that a state must have to take these rows: its own, or if a row's exponent exceeds that
  // by more than kSlack, the largest exponent.
  void FindMaximum(std::span<const double> c) {
    FindLargest(shift_);
    for (size_t r = 0; r < maximum_.size(); ++r)
      maximum_[r] = Largest(r) > c[r] + kSlack ? Largest(r) : c[r];
  }

  // The c that the state will have once it has moved over these rows, and what each row counts by
  // then; before Weigh.
  void FindEnd(const RowDecay& decay, Sweep sweep) {
    const bool mild = decay.total() >= -kMildDecay;
    for (int64_t row = 0; row < count_; ++row) {
      const auto i = static_cast<size_t>(row);
      end_weight_[i] = decay.Kept(sweep, row);
      if (!mild) end_shift_[i] = shift_[i] + static_cast<float>(decay.ToEnd(sweep, row));
    }
    if (!mild) FindLargest(end_shift_);
    for (size_t r = 0; r < end_.size(); ++r) {
      end_[r] = maximum_[r] + decay.total();
      if (!mild && Largest(r) > end_[r] + kSlack) end_[r] = Largest(r);
    }
  }
  // Whether some c falls so far that weights relative to the maximum have lost their digits.
  bool EndIsFar() const {
    for (size_t r = 0; r < end_.size(); ++r) {
      if (maximum_[r] - end_[r] > kLargestFall) return true;
    }
    return false;
  }
  const std::vector<double>& end() const { return end_; }
  // The values of rows times what the rows count where `sweep` leads.
  const float* DecayedValues(const RowDecay& decay, Sweep sweep) {
    for (int64_t row = 0; row < count_; ++row) {
      const float kept = decay.Kept(sweep, row);
      const float* HWY_RESTRICT from = Value(row);
      float* HWY_RESTRICT to = decayed_values_.data() + row * value_step_;
      for (int64_t v = 0; v < value_step_; ++v) to[v] = kept * from[v];
    }
    return decayed_values_.data();
  }

  // Sets the maximum to sign·c: weights will be relative to it.
  void SetMaximum(double sign, std::span<const double> c) {
    for (size_t r = 0; r < maximum_.size(); ++r) maximum_[r] = sign * c[r];
  }

  // Whether some exponent, relative to the maximum, exceeds `largest_exponent`: its weight would be
  // too large for floats.
  bool AnyWeightBeyond(float largest_exponent) {
    panel_.SetFeatureShift(maximum_, -1, -base_);
    for (int64_t row = 0; row < count_; ++row) {
      if (Exists(row) &&
          panel_.LargestOfRow(row) + shift_[static_cast<size_t>(row)] > largest_exponent)
        return true;
    }
    return false;
  }

  // Weights relative to the maximum, and their sums Σ_i multiple_i w_ir, times what each row counts
  // behind the last.
  void Weigh(float limit = kSlack) {
    panel_.SetFeatureShift(maximum_, -1, -base_);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    for (int64_t row = 0; row < count_; ++row) {
      PrefetchRow(*source_, next_ + row);
      PrefetchRow(*values_source_, next_ + row);
      if (!Exists(row)) {
        panel_.ClearWeights(row);
        continue;
      }
      const auto i = static_cast<size_t>(row);
      panel_.WeighAndSum(row, shift_[i], limit, multiple_[i] * end_weight_[i], sums_.data());
    }
  }

  int64_t count() const { return count_; }
  int64_t tokens() const { return tokens_; }
  bool Exists(int64_t row) const { return exists_[static_cast<size_t>(row)] != 0; }
  const FeaturePanel& panel() const { return panel_; }
  FeaturePanel& panel() { return panel_; }
  const float* values() const { return values_.data(); }
  float* Value(int64_t row) const { return values_.data() + row * value_step_; }
  int64_t value_step() const { return value_step_; }
  const std::vector<double>& maximum() const { return maximum_; }
  const AlignedVector<float>& sums() const { return sums_; }
  // log of a row's weight, for maps whose exponent does not depend on the feature.
  float LogWeight(int64_t row) const {
    return std::min(kSlack, shift_[static_cast<size_t>(row)] + panel_.FeatureShift(0));
  }

 private:
  void FindLargest(const AlignedVector<float>& shift) {
    std::fill(largest_.begin(), largest_.end(), -INFINITY);
    panel_.FindLargest(count_, exists_.data(), shift.data(), largest_.data());
  }
  double Largest(size_t feature) const {
    return static_cast<double>(largest_[feature]) + base_ + panel_.offset()[feature];
  }
  // Loads zeros for a row that does not exist; returns false if a value is out of range.
  bool LoadValue(const ConstView& values, int64_t begin, int64_t row) {
    if (!Exists(row)) {
      std::fill_n(Value(row), value_step_, 0.0f);
      return true;
    }
    LoadRow(values, begin + row, nullptr, 1, value_step_, Value(row));
    return IsWithin(Value(row), PaddedColumns(value_dim_), static_cast<float>(kLargestValue));
  }
  void SetMultiple(int64_t row, float multiple) {
    multiple_[static_cast<size_t>(row)] = multiple;
    Value(row)[value_dim_] = Exists(row) ? multiple : 0;
  }

  // shift_i of rows that exist, in double, relative to the largest.
  template <class Shift>
  void SetShifts(const Shift& shift) {
    base_ = -INFINITY;
    tokens_ = 0;
    std::fill_n(end_weight_.begin(), count_, 1.0f);
    for (int64_t row = 0; row < count_; ++row) {
      if (!Exists(row)) continue;
      ++tokens_;
      base_ = std::max(base_, shift(row));
    }
    if (tokens_ == 0) base_ = 0;
    for (int64_t row = 0; row < count_; ++row) {
      shift_[static_cast<size_t>(row)] =
          Exists(row) ? static_cast<float>(shift(row) - base_) : 0.0f;
    }
  }

  const HeadFeatures& head_;
  FeaturePanel panel_;
  int64_t value_dim_, value_step_;
  Scratch<float> values_, decayed_values_;  // [rows, value_step]
  AlignedVector<float> shift_, multiple_;
  std::vector<char> exists_;
  AlignedVector<float> end_weight_, end_shift_;
  double base_ = 0;
  std::vector<double> maximum_, end_;
  AlignedVector<float> largest_, sums_;
  int64_t count_ = 0, tokens_ = 0;
  // The next rows are likely to come from here: they are prefetched.
  const ConstView *source_ = nullptr, *values_source_ = nullptr;
  int64_t next_ = 0;
};

// A PrefixState as kernels hold it, with sums as pairs of floats: the first is used in products and
// the second keeps what the first lost, so that a million small additions are not lost (48 bits in
// all).
class SumState {
 public:
  enum class Layout {
    kByFeature,  // S [width, value_dim]: weights·S
    kByValue,    // Sᵀ [value_dim, width], then a row z: [values, multiple]·[S, z]ᵀ
  };

  SumState(const PrefixState& from, Layout layout, const Context& context)
      : layout_(layout),
        width_(from.width),
        value_dim_(from.value_dim),
        step_(RowStep(layout == Layout::kByFeature ? value_dim_ : width_)),
        size_((layout == Layout::kByFeature ? width_ : (value_dim_ + 4) / 4 * 4) * step_),
        memory_(context, 2 * size_),
        c_(from.c.begin(), from.c.end()),
        z_(from.z.begin(), from.z.end()),
        z_f32_(static_cast<size_t>(PaddedColumns(width_)), 0.0f),
        decay_(z_f32_.size(), 1.0f),
        factor_(decay_.size(), 1.0f),
        tokens_(static_cast<int64_t>(*from.tokens)),
        log_decay_(*from.log_decay) {
    std::fill_n(memory_.data(), 2 * size_, 0.0f);
    for (int64_t r = 0; r < width_ && !from.IsEmpty(); ++r) {
      const double* HWY_RESTRICT values = from.s + r * value_dim_;
      if (layout_ == Layout::kByFeature) {
        float *HWY_RESTRICT high = s() + r * step_, *HWY_RESTRICT low = rest() + r * step_;
        for (int64_t v = 0; v < value_dim_; ++v) {
          high[v] = static_cast<float>(values[v]);
          low[v] = static_cast<float>(values[v] - high[v]);
        }
        continue;
      }
      for (int64_t v = 0; v < value_dim_; ++v) {
        const auto high = static_cast<float>(values[v]);
        s()[v * step_ + r] = high;
        rest()[v * step_ + r] = static_cast<float>(values[v] - high);
      }
    }
    RefreshZ();
  }

  void CopyTo(const PrefixState& to) const {
    std::ranges::copy(c_, to.c.begin());
    std::ranges::copy(z_, to.z.begin());
    *to.tokens = static_cast<double>(tokens_);
    *to.log_decay = log_decay_;
    for (int64_t r = 0; r < width_; ++r) {
      double* HWY_RESTRICT values = to.s + r * value_dim_;
      const int64_t first = layout_ == Layout::kByFeature ? r * step_ : r;
      const float *HWY_RESTRICT high = s() + first, *HWY_RESTRICT low = rest() + first;
      if (layout_ == Layout::kByFeature) {
        for (int64_t v = 0; v < value_dim_; ++v) values[v] = static_cast<double>(high[v]) + low[v];
        continue;
      }
      for (int64_t v = 0; v < value_dim_; ++v)
        values[v] = static_cast<double>(high[v * step_]) + low[v * step_];
    }
  }

  // decay_r = exp(c_r − maximum_r), for reading this state with weights relative to `maximum`.
  void FindDecay(const std::vector<double>& maximum) {
    any_decay_ = false;
    for (int64_t r = 0; r < width_; ++r) {
      const auto i = static_cast<size_t>(r);
      decay_[i] = 1;
      if (c_[i] == maximum[i]) continue;
      decay_[i] = static_cast<float>(std::exp(c_[i] - maximum[i]));
      any_decay_ = true;
    }
  }
  const AlignedVector<float>& decay() const { return decay_; }

  // Moves the sums to larger maxima, by the decay found for them.
  void Raise(const std::vector<double>& maximum) {
    if (!any_decay_) return;
    for (int64_t r = 0; r < width_; ++r) {
      const auto i = static_cast<size_t>(r);
      if (c_[i] == maximum[i]) continue;
      z_[i] *= std::exp(c_[i] - maximum[i]);
      if (layout_ == Layout::kByFeature) Scale(r * step_, step_, nullptr, decay_[i]);
    }
    if (layout_ == Layout::kByValue) {
      for (int64_t v = 0; v < value_dim_; ++v)
        Scale(v * step_, PaddedColumns(width_), decay_.data(), 0);
    }
    c_ = maximum;
    RefreshZ();
  }

  // Everything so far counts e^more times what it counted.
  void Forget(double more) {
    for (double& c : c_) c += more;
    log_decay_ += more;
  }

  // Adds rows whose weights are relative to c, and which forget: c becomes their end.
  void Add(AppendedRows& rows, const RowDecay& decay, Sweep sweep) {
    const FeaturePanel& panel = rows.panel();
    const float* values = rows.DecayedValues(decay, sweep);
    const double rise = std::exp(-decay.total());
    for (int64_t r = 0; r < width_; ++r) {
      const auto i = static_cast<size_t>(r);
      double kept = 1, factor = rise;
      if (rows.end()[i] != c_[i] + decay.total()) {
        factor = std::exp(c_[i] - rows.end()[i]);
        kept = std::exp(c_[i] + decay.total() - rows.end()[i]);
      }
      factor_[i] = static_cast<float>(factor);
      decay_[i] = static_cast<float>(kept);
      z_[i] = kept * z_[i] + factor * rows.sums()[i];
    }
    Result result{s(), step_, ResultMode::kAddExactly, rest()};
    if (layout_ == Layout::kByFeature) {
      result.row_decay = decay_.data();
      result.row_factor = factor_.data();
      Multiply({panel.Weights(0), 1, panel.step()}, values, rows.value_step(), width_, value_dim_,
               rows.count(), result);
    } else {
      result.column_decay = decay_.data();
      result.column_factor = factor_.data();
      Multiply({values, 1, rows.value_step()}, panel.Weights(0), panel.step(), value_dim_, width_,
               rows.count(), result);
    }
    c_ = rows.end();
    log_decay_ += decay.total();
    tokens_ += rows.tokens();
    RefreshZ();
  }

  // Adds rows whose weights are relative to c.
  void Add(const AppendedRows& rows) {
    const FeaturePanel& panel = rows.panel();
    if (layout_ == Layout::kByFeature) {
      Multiply({panel.Weights(0), 1, panel.step()}, rows.values(), rows.value_step(), width_,
               value_dim_, rows.count(), {s(), step_, ResultMode::kAddExactly, rest()});
    } else {
      Multiply({rows.values(), 1, rows.value_step()}, panel.Weights(0), panel.step(), value_dim_,
               width_, rows.count(), {s(), step_, ResultMode::kAddExactly, rest()});
    }
    for (int64_t r = 0; r < width_; ++r)
      z_[static_cast<size_t>(r)] += rows.sums()[static_cast<size_t>(r)];
    tokens_ += rows.tokens();
    RefreshZ();
  }

  // Appends rows: finds maxima and decay, and adds to the sums.
  void Append(AppendedRows& rows) {
    if (rows.tokens() == 0) return;
    rows.FindMaximum(c_);
    rows.Weigh();
    FindDecay(rows.maximum());
    Raise(rows.maximum());
    Add(rows);
  }

  float* s() const { return memory_.data(); }
  int64_t step() const { return step_; }
  const float* z() const { return z_f32_.data(); }
  const std::vector<double>& c() const { return c_; }
  int64_t tokens() const { return tokens_; }
  bool IsEmpty() const { return tokens_ == 0; }

 private:
  float* rest() const { return memory_.data() + size_; }
  void RefreshZ() {
    std::copy(z_.begin(), z_.end(), z_f32_.begin());
    if (layout_ == Layout::kByValue)
      std::copy(z_f32_.begin(), z_f32_.end(), s() + value_dim_ * step_);
  }

  // Multiplies a row of pairs by `decay`, or by one factor for each element.
  void Scale(int64_t first, int64_t count, const float* decays, float decay) const {
    const FloatTag d;
    for (int64_t i = 0; i < count; i += Lanes()) {
      const Floats factor = decays != nullptr ? hn::LoadU(d, decays + i) : hn::Set(d, decay);
      AddExactly(hn::Zero(d), factor, s() + first + i, rest() + first + i);
    }
  }

  Layout layout_;
  int64_t width_, value_dim_, step_, size_;
  Scratch<float> memory_;
  std::vector<double> c_, z_;
  AlignedVector<float> z_f32_, decay_, factor_;
  bool any_decay_ = false;
  int64_t tokens_;
  double log_decay_;
};

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_LINEAR_STATE_INL_H_
