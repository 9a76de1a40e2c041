#include "kernels/cpu/simd/linear_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/linear_gradients.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/simd/gradient_tiles-inl.h"
#include "kernels/cpu/simd/linear_state-inl.h"
#include "kernels/cpu/simd/output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kPanelRows = 96;
// Rows of a lower triangle are multiplied in strips; what lies above the diagonal within a strip is
// zero.
constexpr int64_t kStrip = 24;
HWY_INLINE int64_t StripEnd(int64_t row) { return (row / kStrip + 1) * kStrip; }

// products[i, j] = a_i·b_j for j ≤ i.
HWY_INLINE void LowerProducts(const float* a, int64_t a_step, const float* b, int64_t b_step,
                              int64_t count, int64_t depth, float* products, int64_t step) {
  MultiplyRows(a, a_step, b, b_step, count, count, depth, /*lower=*/true, products, step);
  for (int64_t row = 0; row < count; ++row) {
    float* line = products + row * step;
    std::fill(line + row + 1, line + std::min(count, StripEnd(row)), 0.0f);
  }
}

// C_i += Σ_{j ≤ i} products[i, j] b_j
HWY_INLINE void AddLower(const float* products, int64_t step, const float* b, int64_t b_step,
                         int64_t count, int64_t columns, float* c, int64_t c_step) {
  for (int64_t row = 0; row < count; row = StripEnd(row)) {
    const int64_t last = std::min(count, StripEnd(row));
    Multiply({products + row * step, step, 1}, b, b_step, last - row, columns, last,
             {c + row * c_step, c_step, ResultMode::kAdd});
  }
}

// C_j += Σ_{i ≥ j} products[i, j] b_i
HWY_INLINE void AddLowerTranspose(const float* products, int64_t step, const float* b,
                                  int64_t b_step, int64_t count, int64_t columns, float* c,
                                  int64_t c_step) {
  for (int64_t column = 0; column < count; column = StripEnd(column)) {
    const int64_t last = std::min(count, StripEnd(column));
    Multiply({products + column * step + column, 1, step}, b + column * b_step, b_step,
             last - column, columns, count - column,
             {c + column * c_step, c_step, ResultMode::kAdd});
  }
}

RowCounts QueryGradientsOnTarget(const LinearHead& head, const HeadGradients& gradients,
                                 RowRange range, const PrefixState& state,
                                 const PrefixState& adjoint) {
  const int64_t dv = state.value_dim, panel_rows = std::min(kPanelRows, range.count());
  AppendedRows rows(head.features, panel_rows, dv, /*backward=*/true, head.context);
  const SumState keys(state, SumState::Layout::kByValue, head.context);
  SumState sums(adjoint, SumState::Layout::kByFeature, head.context);
  const GradientTiles tiles(head, panel_rows, dv);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kPanelRows) {
    const int64_t count = std::min(kPanelRows, range.end - first);
    counts.unusable += rows.LoadQueries(head.queries, gradients, first, first + count);
    if (state.IsEmpty()) {
      std::fill_n(tiles.grad_x, count * tiles.x_step, 0.0f);
    } else {
      rows.SetMaximum(-1, state.c);
      counts.unusable += Beyond(head, rows, gradients);
      rows.Weigh(kWeightLimit);
      Multiply({rows.values(), rows.value_step(), 1}, keys.s(), keys.step(), count, state.width,
               dv + 1, {tiles.grad_weights, tiles.weight_step});
      sums.Add(rows);
      rows.panel().Backward(count, tiles.grad_weights, tiles.grad_x, tiles.x_step);
    }
    counts.unusable +=
        StoreGradient(gradients.grad_queries, first, count, tiles.grad_x, tiles.x_step,
                      head.queries.sqrt_scale, gradients.add_to_queries);
  }
  sums.CopyTo(adjoint);
  return counts;
}

RowCounts KeyGradientsOnTarget(const LinearHead& head, const HeadGradients& gradients,
                               RowRange range, const PrefixState& adjoint) {
  const int64_t dv = adjoint.value_dim, panel_rows = std::min(kPanelRows, range.count());
  AppendedRows rows(head.features, panel_rows, dv, /*backward=*/true, head.context);
  const SumState by_value(adjoint, SumState::Layout::kByValue, head.context),
      by_feature(adjoint, SumState::Layout::kByFeature, head.context);
  const GradientTiles tiles(head, panel_rows, dv);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kPanelRows) {
    const int64_t count = std::min(kPanelRows, range.end - first);
    counts.unusable += rows.LoadKeys(head.keys, first, first + count);
    if (adjoint.IsEmpty()) {
      std::fill_n(tiles.grad_x, count * tiles.x_step, 0.0f);
      std::fill_n(tiles.grad_value, count * tiles.value_step, 0.0f);
    } else {
      rows.SetMaximum(-1, adjoint.c);
      counts.unusable += Beyond(head, rows, gradients);
      rows.Weigh(kWeightLimit);
      FeaturePanel& panel = rows.panel();
      Multiply({panel.Weights(0), panel.step(), 1}, by_feature.s(), by_feature.step(), count, dv,
               adjoint.width, {tiles.grad_value, tiles.value_step});
      Multiply({rows.values(), rows.value_step(), 1}, by_value.s(), by_value.step(), count,
               adjoint.width, dv + 1, {tiles.grad_weights, tiles.weight_step});
      panel.Backward(count, tiles.grad_weights, tiles.grad_x, tiles.x_step);
    }
    counts.unusable += StoreGradient(gradients.grad_keys, first, count, tiles.grad_x, tiles.x_step,
                                     head.keys.sqrt_scale, gradients.add_to_keys);
    counts.unusable += StoreGradient(gradients.grad_values, first, count, tiles.grad_value,
                                     tiles.value_step, 1, gradients.add_to_keys);
  }
  return counts;
}

RowCounts AppendQueriesOnTarget(const LinearHead& head, const HeadGradients& gradients,
                                RowRange range, const PrefixState& adjoint) {
  AppendedRows rows(head.features, std::min(kPanelRows, range.count()), adjoint.value_dim,
                    /*backward=*/false, head.context);
  SumState sums(adjoint, SumState::Layout::kByFeature, head.context);
  RowDecay decay(std::min(kPanelRows, range.count()));
  RowCounts counts;
  for (int64_t last = range.end; last > range.begin;) {
    const int64_t first = std::max(range.begin, last - kPanelRows);
    decay.Load(head.keys, first, last);
    counts.unusable += rows.LoadQueries(head.queries, gradients, first, last, &decay);
    if (decay.forgets()) sums.Forget(decay.total());
    sums.Append(rows);
    if (decay.forgets()) sums.Forget(decay.first());
    last = first;
  }
  sums.CopyTo(adjoint);
  return counts;
}

// The two sweeps of a causal call, which share the shapes of buffers and halve a chunk in which
// some weight leaves the range of floats.
class CausalGradients {
 public:
  CausalGradients(const LinearHead& head, const HeadGradients& gradients, int64_t max_rows,
                  const PrefixState& state, double* exponent_gradients)
      : head_(head),
        gradients_(gradients),
        exponent_gradients_(exponent_gradients),
        width_(state.width),
        value_dim_(state.value_dim),
        queries_(head.features, max_rows, state.value_dim, /*backward=*/true, head.context,
                 head.keys.log_decay != nullptr),
        keys_(head.features, max_rows, state.value_dim, /*backward=*/true, head.context,
              head.keys.log_decay != nullptr),
        decay_(max_rows),
        sums_(state, SumState::Layout::kByValue, head.context),
        tiles_(head, (max_rows + 3) / 4 * 4, state.value_dim) {}

  // Gradients of queries; the state of keys moves forward. `decayed`: ℓ of the first row has acted
  // on the state already.
  RowCounts Forwards(int64_t begin, int64_t end, bool decayed = false) {
    const int64_t count = end - begin;
    RowCounts counts;
    counts.unusable = Load(begin, end);
    if (decay_.forgets() && !decayed) sums_.Forget(decay_.first());
    if (keys_.tokens() > 0 || !sums_.IsEmpty()) {
      keys_.FindMaximum(sums_.c());
      queries_.SetMaximum(-1, keys_.maximum());
      if (decay_.forgets()) keys_.FindEnd(decay_, Sweep::kForwards);
      if (count > 1 &&
          (queries_.AnyWeightBeyond(kLargestExponent) || (decay_.forgets() && keys_.EndIsFar()))) {
        const int64_t middle = begin + count / 2;
        RowCounts first = Forwards(begin, middle, /*decayed=*/true);
        return first += Forwards(middle, end);
      }
      keys_.Weigh();
      sums_.FindDecay(keys_.maximum());
      sums_.Raise(keys_.maximum());
      counts.unusable += Beyond(head_, queries_, gradients_);
      queries_.Weigh(kWeightLimit);
      ReadState(queries_, count, Sweep::kBackwards);
      ValueProducts(count);
      AddLower(tiles_.products, tiles_.product_step, keys_.panel().Weights(0), keys_.panel().step(),
               count, width_, tiles_.grad_weights, tiles_.weight_step);
      queries_.panel().Backward(count, tiles_.grad_weights, tiles_.grad_x, tiles_.x_step);
      StoreExponentGradients(queries_.panel(), begin, count);
      Add(keys_, Sweep::kForwards);
    } else {
      std::fill_n(tiles_.grad_x, count * tiles_.x_step, 0.0f);
    }
    counts.unusable +=
        StoreGradient(gradients_.grad_queries, begin, count, tiles_.grad_x, tiles_.x_step,
                      head_.queries.sqrt_scale, gradients_.add_to_queries);
    return counts;
  }

  // Gradients of keys and values; the adjoint moves back.
  RowCounts Backwards(int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    RowCounts counts;
    counts.unusable = Load(begin, end);
    if (queries_.tokens() > 0 || !sums_.IsEmpty()) {
      queries_.FindMaximum(sums_.c());
      keys_.SetMaximum(-1, queries_.maximum());
      if (decay_.forgets()) queries_.FindEnd(decay_, Sweep::kBackwards);
      if (count > 1 &&
          (keys_.AnyWeightBeyond(kLargestExponent) || (decay_.forgets() && queries_.EndIsFar()))) {
        const int64_t middle = begin + count / 2;
        RowCounts last = Backwards(middle, end);
        return last += Backwards(begin, middle);
      }
      queries_.Weigh();
      sums_.FindDecay(queries_.maximum());
      sums_.Raise(queries_.maximum());
      counts.unusable += Beyond(head_, keys_, gradients_);
      keys_.Weigh(kWeightLimit);
      const FeaturePanel& q = queries_.panel();
      FeaturePanel& k = keys_.panel();
      MultiplyRows(k.Weights(0), k.step(), sums_.s(), sums_.step(), count, value_dim_, k.padded(),
                   /*lower=*/false, tiles_.grad_value, tiles_.value_step);
      decay_.DecayRows(Sweep::kForwards, count, value_dim_, tiles_.grad_value, tiles_.value_step);
      LowerProducts(q.Weights(0), q.step(), k.Weights(0), k.step(), count, q.padded(),
                    tiles_.weight_products, tiles_.product_step);
      decay_.DecayProducts(count, tiles_.weight_products, tiles_.product_step);
      AddLowerTranspose(tiles_.weight_products, tiles_.product_step, queries_.values(),
                        queries_.value_step(), count, value_dim_, tiles_.grad_value,
                        tiles_.value_step);
      ReadState(keys_, count, Sweep::kForwards);
      ValueProducts(count);
      AddLowerTranspose(tiles_.products, tiles_.product_step, q.Weights(0), q.step(), count, width_,
                        tiles_.grad_weights, tiles_.weight_step);
      k.Backward(count, tiles_.grad_weights, tiles_.grad_x, tiles_.x_step);
      StoreExponentGradients(k, begin, count);
      Add(queries_, Sweep::kBackwards);
    } else {
      std::fill_n(tiles_.grad_x, count * tiles_.x_step, 0.0f);
      std::fill_n(tiles_.grad_value, count * tiles_.value_step, 0.0f);
    }
    if (decay_.forgets()) sums_.Forget(decay_.first());
    counts.unusable += StoreGradient(gradients_.grad_keys, begin, count, tiles_.grad_x,
                                     tiles_.x_step, head_.keys.sqrt_scale, gradients_.add_to_keys);
    counts.unusable += StoreGradient(gradients_.grad_values, begin, count, tiles_.grad_value,
                                     tiles_.value_step, 1, gradients_.add_to_keys);
    return counts;
  }

 private:
  int64_t Load(int64_t begin, int64_t end) {
    decay_.Load(head_.keys, begin, end);
    return queries_.LoadQueries(head_.queries, gradients_, begin, end) +
           keys_.LoadKeys(head_.keys, begin, end);
  }

  // grad_weights = [values, multiple]·[S, z]ᵀ, where `sweep` leads from a row to the state.
  void ReadState(AppendedRows& rows, int64_t count, Sweep sweep) {
    const float* values = decay_.forgets() ? rows.DecayedValues(decay_, sweep) : rows.values();
    Multiply({values, rows.value_step(), 1}, sums_.s(), sums_.step(), count, width_, value_dim_ + 1,
             {tiles_.grad_weights, tiles_.weight_step});
  }

  // products[i, j] = (dO_i·v_j + δ_i)·e^{P_i − P_j}
  void ValueProducts(int64_t count) {
    LowerProducts(queries_.values(), queries_.value_step(), keys_.values(), keys_.value_step(),
                  count, value_dim_ + 1, tiles_.products, tiles_.product_step);
    decay_.DecayProducts(count, tiles_.products, tiles_.product_step);
  }

  void StoreExponentGradients(const FeaturePanel& panel, int64_t begin, int64_t count) const {
    for (int64_t row = 0; row < count && exponent_gradients_ != nullptr; ++row)
      exponent_gradients_[begin + row] = panel.ExponentGradient(row);
  }

  void Add(AppendedRows& rows, Sweep sweep) {
    if (decay_.forgets()) {
      sums_.Add(rows, decay_, sweep);
    } else {
      sums_.Add(rows);
    }
  }

  const LinearHead& head_;
  const HeadGradients& gradients_;
  double* exponent_gradients_;
  int64_t width_, value_dim_;
  AppendedRows queries_, keys_;
  RowDecay decay_;
  SumState sums_;
  GradientTiles tiles_;
};

RowCounts CausalQueryGradientsOnTarget(const LinearHead& head, const HeadGradients& gradients,
                                       RowRange range, const PrefixState& state,
                                       double* exponent_gradients) {
  CausalGradients sweep(head, gradients, std::min(head.chunk, range.count()), state,
                        exponent_gradients);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += head.chunk)
    counts += sweep.Forwards(first, std::min(range.end, first + head.chunk));
  return counts;
}

RowCounts CausalKeyGradientsOnTarget(const LinearHead& head, const HeadGradients& gradients,
                                     RowRange range, const PrefixState& adjoint,
                                     double* exponent_gradients) {
  CausalGradients sweep(head, gradients, std::min(head.chunk, range.count()), adjoint,
                        exponent_gradients);
  RowCounts counts;
  for (int64_t last = range.end; last > range.begin;
       last = std::max(range.begin, last - head.chunk))
    counts += sweep.Backwards(std::max(range.begin, last - head.chunk), last);
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(QueryGradientsOnTarget);
HWY_EXPORT(KeyGradientsOnTarget);
HWY_EXPORT(AppendQueriesOnTarget);
HWY_EXPORT(CausalQueryGradientsOnTarget);
HWY_EXPORT(CausalKeyGradientsOnTarget);

RowCounts QueryGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                         const PrefixState& state, const PrefixState& adjoint) {
  return HWY_DYNAMIC_DISPATCH(QueryGradientsOnTarget)(head, gradients, range, state, adjoint);
}

RowCounts KeyGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                       const PrefixState& adjoint) {
  return HWY_DYNAMIC_DISPATCH(KeyGradientsOnTarget)(head, gradients, range, adjoint);
}

RowCounts AppendQueries(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                        const PrefixState& adjoint) {
  return HWY_DYNAMIC_DISPATCH(AppendQueriesOnTarget)(head, gradients, range, adjoint);
}

RowCounts CausalQueryGradients(const LinearHead& head, const HeadGradients& gradients,
                               RowRange range, const PrefixState& state,
                               double* exponent_gradients) {
  return HWY_DYNAMIC_DISPATCH(CausalQueryGradientsOnTarget)(head, gradients, range, state,
                                                            exponent_gradients);
}

RowCounts CausalKeyGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                             const PrefixState& adjoint, double* exponent_gradients) {
  return HWY_DYNAMIC_DISPATCH(CausalKeyGradientsOnTarget)(head, gradients, range, adjoint,
                                                          exponent_gradients);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
