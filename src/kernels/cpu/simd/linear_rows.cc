#include "kernels/cpu/simd/linear_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/linear_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/simd/linear_state-inl.h"
#include "kernels/cpu/simd/output-inl.h"
#include "kernels/cpu/simd/weighed_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kKeyPanel = 120, kQueryPanel = 96;
// Up to this many rows use the state in double as it is: converting it to floats would cost more.
constexpr int64_t kFewRows = 4;

// Adds a few keys to the state in place.
RowCounts AppendFew(const LinearHead& head, RowRange range, const PrefixState& state) {
  AppendedRows keys(head.features, range.count(), state.value_dim, /*backward=*/false,
                    head.context);
  RowCounts counts;
  RowDecay decay(range.count());
  decay.Load(head.keys, range.begin, range.end);
  counts.unusable = keys.LoadKeys(head.keys, range.begin, range.end, &decay);
  if (keys.tokens() == 0) return counts;
  if (decay.forgets()) state.Forget(decay.first() + decay.total());
  keys.FindMaximum(state.c);
  keys.Weigh();
  for (int64_t r = 0; r < state.width; ++r) {
    const auto i = static_cast<size_t>(r);
    double* s = state.s + r * state.value_dim;
    if (state.c[i] != keys.maximum()[i]) {
      const double lowered = std::exp(state.c[i] - keys.maximum()[i]);
      for (int64_t v = 0; v < state.value_dim; ++v) s[v] *= lowered;
      state.z[i] *= lowered;
      state.c[i] = keys.maximum()[i];
    }
    for (int64_t row = 0; row < keys.count(); ++row) {
      const double weight = keys.panel().Weights(row)[r];
      const float* value = keys.Value(row);
      for (int64_t v = 0; v < state.value_dim; ++v) s[v] += weight * value[v];
    }
    state.z[i] += keys.sums()[i];
  }
  *state.tokens += static_cast<double>(keys.tokens());
  return counts;
}

RowCounts ReadFew(const LinearHead& head, RowRange range, const PrefixState& state,
                  const HeadOutput& out) {
  const int64_t begin = range.begin, dv = state.value_dim;
  RowCounts counts;
  WeighedQueries queries(head.features, range.count(), head.context);
  counts.unusable = queries.Load(head.queries, begin, range.end);
  std::vector<float> no_z(static_cast<size_t>(PaddedColumns(state.width)), 0.0f);
  if (!state.IsEmpty()) queries.Weigh(state.c, no_z.data());
  std::vector<double> numerator(static_cast<size_t>(dv));
  for (int64_t row = 0; row < range.count(); ++row) {
    if (state.IsEmpty()) {
      counts += StoreEmpty(out, begin + row, dv);
      continue;
    }
    const float* weights = queries.panel().Weights(row);
    std::fill(numerator.begin(), numerator.end(), 0.0);
    double denominator = 0;
    for (int64_t r = 0; r < state.width; ++r) {
      const double weight = weights[r];
      const double* s = state.s + r * dv;
      denominator += weight * state.z[static_cast<size_t>(r)];
      for (int64_t v = 0; v < dv; ++v) numerator[static_cast<size_t>(v)] += weight * s[v];
    }
    counts += Store(
        out, begin + row, dv, true, [&]() { return queries.LogScale(head.queries, begin, row); },
        numerator.data(), denominator);
  }
  return counts;
}

RowCounts AppendOnTarget(const LinearHead& head, RowRange range, const PrefixState& state) {
  if (range.count() <= kFewRows) return AppendFew(head, range, state);
  AppendedRows keys(head.features, std::min(kKeyPanel, range.count()), state.value_dim,
                    /*backward=*/false, head.context);
  SumState sums(state, SumState::Layout::kByFeature, head.context);
  RowDecay decay(std::min(kKeyPanel, range.count()));
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kKeyPanel) {
    const int64_t last = std::min(range.end, first + kKeyPanel);
    decay.Load(head.keys, first, last);
    counts.unusable += keys.LoadKeys(head.keys, first, last, &decay);
    if (decay.forgets()) sums.Forget(decay.first() + decay.total());
    sums.Append(keys);
  }
  sums.CopyTo(state);
  return counts;
}

RowCounts ReadOnTarget(const LinearHead& head, RowRange range, const PrefixState& state,
                       const HeadOutput& out) {
  if (range.count() <= kFewRows || state.IsEmpty()) return ReadFew(head, range, state, out);
  const int64_t dv = state.value_dim, step = RowStep(dv);
  WeighedQueries queries(head.features, std::min(kQueryPanel, range.count()), head.context);
  // The state's sums as floats, [width, value_dim].
  const Scratch<float> memory(head.context, (state.width + kQueryPanel) * step);
  float *sums = memory.data(), *numerators = sums + state.width * step;
  for (int64_t r = 0; r < state.width; ++r) {
    const double* HWY_RESTRICT from = state.s + r * dv;
    float* HWY_RESTRICT to = sums + r * step;
    for (int64_t v = 0; v < dv; ++v) to[v] = static_cast<float>(from[v]);
    std::fill(to + dv, to + step, 0.0f);
  }
  AlignedVector<float> z(static_cast<size_t>(PaddedColumns(state.width)), 0.0f);
  std::copy(state.z.begin(), state.z.end(), z.begin());
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kQueryPanel) {
    const int64_t count = std::min(kQueryPanel, range.end - first);
    counts.unusable += queries.Load(head.queries, first, first + count);
    queries.Weigh(state.c, z.data());
    Multiply({queries.panel().Weights(0), queries.panel().step(), 1}, sums, step, count, dv,
             state.width, {numerators, step});
    for (int64_t row = 0; row < count; ++row) {
      counts += Store(
          out, first + row, dv, true, [&]() { return queries.LogScale(head.queries, first, row); },
          numerators + row * step, queries.Denominator(row));
    }
  }
  return counts;
}

// One pass over the causal rows of a range, which keeps its buffers from chunk to chunk.
class CausalPass {
 public:
  CausalPass(const LinearHead& head, int64_t max_rows, const PrefixState& state,
             const HeadOutput& out)
      : head_(head),
        out_(out),
        value_dim_(state.value_dim),
        value_step_(RowStep(state.value_dim)),
        product_step_(RowStep(max_rows)),
        queries_(head.features, max_rows, head.context),
        keys_(head.features, max_rows, state.value_dim, /*backward=*/false, head.context,
              head.keys.log_decay != nullptr),
        decay_(max_rows),
        sums_(state, SumState::Layout::kByFeature, head.context),
        decayed_z_(static_cast<size_t>(PaddedColumns(head.features.width))),
        numerators_(head.context, max_rows * value_step_),
        products_(head.context, max_rows * product_step_) {}

  // `decayed`: ℓ of the first row has acted on the state already.
  RowCounts Run(int64_t begin, int64_t end, bool decayed = false) {
    const int64_t count = end - begin;
    RowCounts counts;
    decay_.Load(head_.keys, begin, end);
    if (decay_.forgets() && !decayed) sums_.Forget(decay_.first());
    counts.unusable =
        queries_.Load(head_.queries, begin, end) + keys_.LoadKeys(head_.keys, begin, end);
    if (keys_.tokens() == 0 && sums_.IsEmpty()) {
      for (int64_t row = begin; row < end; ++row) counts += StoreEmpty(out_, row, value_dim_);
      return counts;
    }
    keys_.FindMaximum(sums_.c());
    if (decay_.forgets()) {
      keys_.FindEnd(decay_, Sweep::kForwards);
      if (count > 1 && keys_.EndIsFar()) return Halves(begin, end);
    }
    keys_.Weigh();
    sums_.FindDecay(keys_.maximum());
    for (size_t r = 0; r < decayed_z_.size(); ++r)
      decayed_z_[r] = sums_.IsEmpty() ? 0 : sums_.z()[r] * sums_.decay()[r];
    queries_.Weigh(keys_.maximum(), decayed_z_.data());
    const FeaturePanel &q = queries_.panel(), &k = keys_.panel();
    MultiplyRows(q.Weights(0), q.step(), k.Weights(0), k.step(), count, count, q.padded(),
                 /*lower=*/true, products_.data(), product_step_);
    decay_.DecayProducts(count, products_.data(), product_step_);
    // A query sees keys up to itself.
    for (int64_t row = 0; row < count; ++row) {
      float* products = products_.data() + row * product_step_;
      if (decay_.forgets()) queries_.Denominator(row) *= decay_.Kept(Sweep::kBackwards, row);
      float sum = 0;
      for (int64_t key = 0; key <= row; ++key) sum += products[key];
      std::fill(products + row + 1, products + std::min(count, StripEnd(row)), 0.0f);
      queries_.Denominator(row) += sum;
    }
    if (count > 1 && SomeRowIsLost()) return Halves(begin, end);
    sums_.Raise(keys_.maximum());
    Multiply({q.Weights(0), q.step(), 1}, sums_.s(), sums_.step(), count, value_dim_,
             head_.features.width, {numerators_.data(), value_step_});
    decay_.DecayRows(Sweep::kBackwards, count, value_dim_, numerators_.data(), value_step_);
    for (int64_t row = 0; row < count; row = StripEnd(row)) {
      const int64_t last = std::min(count, StripEnd(row));
      Multiply({products_.data() + row * product_step_, product_step_, 1}, keys_.values(),
               keys_.value_step(), last - row, value_dim_, last,
               {numerators_.data() + row * value_step_, value_step_, ResultMode::kAdd});
    }
    int64_t seen = sums_.tokens();
    for (int64_t row = 0; row < count; ++row) {
      seen += keys_.Exists(row) ? 1 : 0;
      if (seen == 0) {
        counts += StoreEmpty(out_, begin + row, value_dim_);
        continue;
      }
      counts += Store(
          out_, begin + row, value_dim_, true,
          [&]() { return queries_.LogScale(head_.queries, begin, row); },
          numerators_.data() + row * value_step_, queries_.Denominator(row));
    }
    if (decay_.forgets()) {
      sums_.Add(keys_, decay_, Sweep::kForwards);
    } else {
      sums_.Add(keys_);
    }
    return counts;
  }

  void CopyTo(const PrefixState& state) const { sums_.CopyTo(state); }

 private:
  // The chunk again, as two; ℓ of its first row has acted on the state.
  RowCounts Halves(int64_t begin, int64_t end) {
    const int64_t middle = begin + (end - begin) / 2;
    RowCounts counts = Run(begin, middle, /*decayed=*/true);
    return counts += Run(middle, end);
  }

  // Rows of the triangle are multiplied in strips.
  static int64_t StripEnd(int64_t row) { return (row / 24 + 1) * 24; }

  // Whether everything that some row may see lies so far below the chunk's maxima that it was lost
  // to rounding. Most maps show it in the denominator. That of signed maps with one exponent for
  // all features can be small anyway: the largest exponent that the row sees decides.
  bool SomeRowIsLost() {
    int64_t seen = sums_.tokens();
    const float decay = sums_.decay()[0];
    float reach = seen == 0 || decay == 0 ? -INFINITY : std::log(decay);
    for (int64_t row = 0; row < keys_.count(); ++row) {
      if (row > 0 && decay_.forgets())
        reach += static_cast<float>(decay_.UpTo(row) - decay_.UpTo(row - 1));
      if (keys_.Exists(row)) {
        ++seen;
        reach = std::max(reach, keys_.LogWeight(row));
      }
      if (seen == 0) continue;
      const bool lost = DenominatorTells(*head_.features.map)
                            ? std::fabs(queries_.Denominator(row)) < kLeastDenominator
                            : reach < kLeastExponent;
      if (lost) return true;
    }
    return false;
  }

  const LinearHead& head_;
  const HeadOutput& out_;
  int64_t value_dim_, value_step_, product_step_;
  WeighedQueries queries_;
  AppendedRows keys_;
  RowDecay decay_;
  SumState sums_;
  AlignedVector<float> decayed_z_;
  Scratch<float> numerators_, products_;
};

RowCounts CausalOnTarget(const LinearHead& head, RowRange range, const PrefixState& state,
                         const HeadOutput& out) {
  RowCounts counts;
  if (range.count() <= kFewRows) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      counts += AppendFew(head, {row, row + 1}, state);
      counts += ReadFew(head, {row, row + 1}, state, out);
    }
    return counts;
  }
  CausalPass pass(head, std::min(head.chunk, range.count()), state, out);
  for (int64_t first = range.begin; first < range.end; first += head.chunk)
    counts += pass.Run(first, std::min(range.end, first + head.chunk));
  pass.CopyTo(state);
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(AppendOnTarget);
HWY_EXPORT(ReadOnTarget);
HWY_EXPORT(CausalOnTarget);

RowCounts AppendKeys(const LinearHead& head, RowRange range, const PrefixState& state) {
  return HWY_DYNAMIC_DISPATCH(AppendOnTarget)(head, range, state);
}

RowCounts ReadQueries(const LinearHead& head, RowRange range, const PrefixState& state,
                      const HeadOutput& out) {
  return HWY_DYNAMIC_DISPATCH(ReadOnTarget)(head, range, state, out);
}

RowCounts Causal(const LinearHead& head, RowRange range, const PrefixState& state,
                 const HeadOutput& out) {
  return HWY_DYNAMIC_DISPATCH(CausalOnTarget)(head, range, state, out);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
