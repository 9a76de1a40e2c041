#include "kernels/cpu/simd/exact_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/exact_gradients.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>

#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/exact_tiles-inl.h"
#include "kernels/cpu/simd/output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kQueryRows = 64;  // rows of a tile of scores: as many as lanes, for the diagonal
// Within a window: fewer queries have fewer keys that only some of them see.
constexpr int64_t kWindowRows = 16;
constexpr int64_t kLaneStep = RowStep(kExactBlock);

// exp(score − log_sum): if bounded, at most 1, whatever rounding says; otherwise infinite beyond
// floats.
HWY_INLINE Floats Weight(Floats exponent, bool bounded) {
  const FloatTag tag;
  if (bounded) return Exp(hn::Min(exponent, hn::Zero(tag)));
  const auto beyond = hn::Gt(exponent, hn::Set(tag, vector_math::kLargestExpArgument));
  return hn::IfThenElse(beyond, hn::Set(tag, INFINITY), Exp(exponent));
}

// The keys of a pair of blocks, up to kExactBlock along the lanes, and the sums of their gradients.
struct LaneBlock {
  int64_t first, lanes;
  int64_t step, value_step;  // of k and grad_k, of grad_v
  const float *k, *k_transposed, *v_transposed;
  const float* hidden;  // [lanes], −∞ for keys that do not exist
  float *grad_k, *grad_v;

  // Those of them that are in `seen`, in whole vectors.
  LaneBlock Within(RowRange seen) const {
    const int64_t begin = std::clamp<int64_t>(seen.begin - first, 0, lanes) / kWidestVector *
                          kWidestVector,
                  end = std::min(lanes,
                                 PaddedColumns(std::clamp<int64_t>(seen.end - first, 0, lanes)));
    return {.first = first + begin,
            .lanes = end - begin,
            .step = step,
            .value_step = value_step,
            .k = k + begin * step,
            .k_transposed = k_transposed + begin,
            .v_transposed = v_transposed + begin,
            .hidden = hidden + begin,
            .grad_k = grad_k + begin * step,
            .grad_v = grad_v + begin * value_step};
  }
};

class KeyBlocks {
 public:
  KeyBlocks(const ExactHead& rows, RowRange range, const Context& context)
      : range_(range),
        d_(rows.keys.size(1)),
        dv_(rows.values.size(1)),
        count_((range.count() + kExactBlock - 1) / kExactBlock),
        memory_(context, count_ * kExactBlock * 2 * (RowStep(d_) + RowStep(dv_)) +
                             count_ * (d_ + dv_ + 1) * kLaneStep) {
    LoadTile(rows.keys, rows.mask, range, 1, Keys());
    LoadTile(rows.values, rows.mask, range, 1, Values());
    std::fill_n(GradKeys(), count_ * kExactBlock * (RowStep(d_) + RowStep(dv_)), 0.0f);
    for (int64_t block = 0; block < count_; ++block) {
      const LaneBlock lanes = At(block);
      TransposeTile(lanes.k, lanes.lanes, d_, kExactBlock, KeysTransposed(block));
      TransposeTile(Values() + block * kExactBlock * RowStep(dv_), lanes.lanes, dv_, kExactBlock,
                    ValuesTransposed(block));
      float* hidden = Hidden(block);
      for (int64_t lane = 0; lane < kExactBlock; ++lane) {
        const int64_t key = lanes.first + lane;
        const bool exists = rows.mask == nullptr || key >= range.end || rows.mask[key] != 0;
        hidden[lane] = exists ? 0 : -INFINITY;
      }
    }
  }

  int64_t count() const { return count_; }
  LaneBlock At(int64_t block) const {
    const int64_t first = range_.begin + block * kExactBlock;
    return {.first = first,
            .lanes = std::min(kExactBlock, range_.end - first),
            .step = RowStep(d_),
            .value_step = RowStep(dv_),
            .k = Keys() + block * kExactBlock * RowStep(d_),
            .k_transposed = KeysTransposed(block),
            .v_transposed = ValuesTransposed(block),
            .hidden = Hidden(block),
            .grad_k = GradKeys() + block * kExactBlock * RowStep(d_),
            .grad_v = GradValues() + block * kExactBlock * RowStep(dv_)};
  }
  const float* grad_keys() const { return GradKeys(); }
  const float* grad_values() const { return GradValues(); }

 private:
  float* Keys() const { return memory_.data(); }
  float* Values() const { return Keys() + count_ * kExactBlock * RowStep(d_); }
  float* GradKeys() const { return Values() + count_ * kExactBlock * RowStep(dv_); }
  float* GradValues() const { return GradKeys() + count_ * kExactBlock * RowStep(d_); }
  float* KeysTransposed(int64_t block) const {
    return GradValues() + count_ * kExactBlock * RowStep(dv_) + block * d_ * kLaneStep;
  }
  float* ValuesTransposed(int64_t block) const {
    return KeysTransposed(count_) + block * dv_ * kLaneStep;
  }
  float* Hidden(int64_t block) const { return ValuesTransposed(count_) + block * kLaneStep; }

  RowRange range_;
  int64_t d_, dv_, count_;
  Scratch<float> memory_;
};

// Scores become weights P, `grad_scores` (dO·v) becomes dS = P (dO·v + δ). Rows are queries from
// `first` on, lanes the keys.
void WeightsAndGradients(const ExactHead& rows, const HeadGradients& gradients, RowRange queries,
                         const LaneBlock& keys, float* scores, float* grad_scores) {
  const FloatTag tag;
  const bool hides = rows.causal || rows.window >= 0,
             bounded = gradients.normalized && gradients.bounded;
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    const RowRange seen = rows.KeysSeenBy({i, i + 1});
    const Floats log_sum = hn::Set(tag, static_cast<float>(gradients.log_sum[i])),
                 delta = hn::Set(tag, static_cast<float>(gradients.delta[i]));
    for (int64_t lane = 0; lane < keys.lanes; lane += Lanes()) {
      Floats shown = hn::Add(hn::LoadU(tag, scores + lane), hn::LoadU(tag, keys.hidden + lane));
      const int64_t key = keys.first + lane;
      if (hides && (key < seen.begin || key + Lanes() > seen.end))
        shown = hn::IfThenElse(LanesOf(seen, key), shown, hn::Set(tag, -INFINITY));
      const Floats weight = Weight(hn::Sub(shown, log_sum), bounded);
      hn::StoreU(weight, tag, scores + lane);
      hn::StoreU(hn::Mul(weight, hn::Add(hn::LoadU(tag, grad_scores + lane), delta)), tag,
                 grad_scores + lane);
    }
    scores += kLaneStep;
    grad_scores += kLaneStep;
  }
}

// Five products per tile of scores: q·k, dO·v, and the sums of dv, dk and dq.
RowCounts ExactGradientsOnTarget(const ExactHead& rows, const HeadGradients& gradients,
                                 const ExactPair& pair, const Context& context) {
  const int64_t d = rows.keys.size(1), dv = rows.values.size(1);
  const int64_t step = RowStep(d), value_step = RowStep(dv);
  const KeyBlocks blocks(rows, pair.keys, context);
  const Scratch<float> memory(context, kQueryRows * (2 * step + value_step + 2 * kLaneStep));
  float *q = memory.data(), *grad_q = q + kQueryRows * step,
        *grad_output = grad_q + kQueryRows * step, *scores = grad_output + kQueryRows * value_step,
        *grad_scores = scores + kQueryRows * kLaneStep;
  RowCounts counts;
  const int64_t query_rows = rows.window >= 0 ? kWindowRows : kQueryRows;
  for (int64_t first = pair.queries.begin; first < pair.queries.end; first += query_rows) {
    const RowRange queries{first, std::min(first + query_rows, pair.queries.end)};
    const int64_t count = queries.count();
    LoadTile(rows.queries, nullptr, queries, rows.scale, q);
    LoadTile(gradients.grad_output, nullptr, queries, 1, grad_output);
    std::fill_n(grad_q, count * step, 0.0f);
    const RowRange seen = rows.KeysSeenBy(queries);
    for (int64_t block = 0; block < blocks.count(); ++block) {
      const LaneBlock keys = blocks.At(block).Within(seen);
      if (keys.lanes <= 0) continue;
      Multiply({q, step, 1}, keys.k_transposed, kLaneStep, count, keys.lanes, d,
               {scores, kLaneStep});
      Multiply({grad_output, value_step, 1}, keys.v_transposed, kLaneStep, count, keys.lanes, dv,
               {grad_scores, kLaneStep});
      WeightsAndGradients(rows, gradients, queries, keys, scores, grad_scores);
      Multiply({scores, 1, kLaneStep}, grad_output, value_step, keys.lanes, dv, count,
               {keys.grad_v, value_step, ResultMode::kAdd});
      Multiply({grad_scores, 1, kLaneStep}, q, step, keys.lanes, d, count,
               {keys.grad_k, step, ResultMode::kAdd});
      Multiply({grad_scores, kLaneStep, 1}, keys.k, step, count, d, keys.lanes,
               {grad_q, step, ResultMode::kAdd});
    }
    counts.unusable += StoreGradient(gradients.grad_queries, first, count, grad_q, step, rows.scale,
                                     pair.add_to_queries);
  }
  const int64_t begin = pair.keys.begin, keys = pair.keys.count();
  counts.unusable += StoreGradient(gradients.grad_keys, begin, keys, blocks.grad_keys(), step, 1,
                                   pair.add_to_keys);
  counts.unusable += StoreGradient(gradients.grad_values, begin, keys, blocks.grad_values(),
                                   value_step, 1, pair.add_to_keys);
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ExactGradientsOnTarget);

RowCounts ExactGradients(const ExactHead& rows, const HeadGradients& gradients,
                         const ExactPair& pair, const Context& context) {
  return HWY_DYNAMIC_DISPATCH(ExactGradientsOnTarget)(rows, gradients, pair, context);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
