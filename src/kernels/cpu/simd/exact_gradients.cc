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

constexpr int64_t kOtherRows = 128;  // rows of the side that streams past
constexpr int64_t kLaneStep = RowStep(kExactBlock);

// A tile of rows as they are, [count, RowStep(columns)]; rows that the mask takes out are zeros.
class Tile {
 public:
  Tile(const ConstView& rows, const float* mask, double scale, const Context& context)
      : rows_(rows),
        mask_(mask),
        scale_(scale),
        step_(RowStep(rows.size(1))),
        memory_(context, kOtherRows * step_) {}

  void Load(int64_t begin, int64_t count) const {
    for (int64_t row = 0; row < count; ++row) {
      float* to = memory_.data() + row * step_;
      if (mask_ != nullptr && mask_[begin + row] == 0) {
        std::fill_n(to, step_, 0.0f);
      } else {
        // Rounded as LoadTransposed does: scores must be those of the forward pass to the last bit.
        for (int64_t i = 0; i < rows_.size(1); ++i)
          to[i] = static_cast<float>(ElementAt(rows_, begin + row, i) * scale_);
        std::fill(to + rows_.size(1), to + step_, 0.0f);
      }
    }
  }
  const float* data() const { return memory_.data(); }
  int64_t step() const { return step_; }
  Operand Rows() const { return {memory_.data(), step_, 1}; }

 private:
  const ConstView& rows_;
  const float* mask_;
  double scale_;
  int64_t step_;
  Scratch<float> memory_;
};

// Sums of gradients of the rows along the lanes, [kExactBlock, columns], with what floats lose.
class LaneSums {
 public:
  LaneSums(int64_t columns, const Context& context)
      : columns_(columns), step_(RowStep(columns)), memory_(context, 2 * kExactBlock * step_) {}

  void Clear() const { std::fill_n(memory_.data(), 2 * kExactBlock * step_, 0.0f); }
  // Σ_k factors[k, lane]·rows[k]
  void Add(const float* factors, const Tile& rows, int64_t lanes, int64_t count) const {
    Multiply(
        {factors, 1, kLaneStep}, rows.data(), rows.step(), lanes, columns_, count,
        {memory_.data(), step_, ResultMode::kAddExactly, memory_.data() + kExactBlock * step_});
  }
  int64_t Store(const View& to, int64_t begin, int64_t lanes, double scale, bool add) const {
    return StoreGradient(to, begin, lanes, memory_.data(), step_, scale, add);
  }

 private:
  int64_t columns_, step_;
  Scratch<float> memory_;
};

// exp(score − log_sum): at most 1 when normalised, whatever rounding says; infinite beyond floats.
HWY_INLINE Floats Weight(Floats exponent, bool normalized) {
  const FloatTag tag;
  if (normalized) return Exp(hn::Min(exponent, hn::Zero(tag)));
  const auto beyond = hn::Gt(exponent, hn::Set(tag, vector_math::kLargestExpArgument));
  return hn::IfThenElse(beyond, hn::Set(tag, INFINITY), Exp(exponent));
}

// Queries along the lanes, keys stream past.
RowCounts ExactQueryGradientsOnTarget(const ExactHead& rows, const HeadGradients& gradients,
                                      RowRange range, const Context& context) {
  const int64_t d = rows.keys.size(1), dv = rows.values.size(1);
  const FloatTag tag;
  const Scratch<float> memory(context, (d + dv + 2 * kOtherRows + 2) * kLaneStep);
  float *q = memory.data(), *grad_output = q + d * kLaneStep;
  float *scores = grad_output + dv * kLaneStep, *grad_scores = scores + kOtherRows * kLaneStep;
  float *log_sum = grad_scores + kOtherRows * kLaneStep, *delta = log_sum + kLaneStep;
  const Tile keys(rows.keys, rows.mask, 1, context), values(rows.values, rows.mask, 1, context);
  const LaneSums grad_queries(d, context);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kExactBlock) {
    const int64_t lanes = std::min(kExactBlock, range.end - first);
    LoadTransposed(rows.queries, first, lanes, rows.scale, q);
    LoadTransposed(gradients.grad_output, first, lanes, 1, grad_output);
    std::fill_n(log_sum, 2 * kLaneStep, 0.0f);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      log_sum[lane] = static_cast<float>(gradients.log_sum[first + lane]);
      delta[lane] = static_cast<float>(gradients.delta[first + lane]);
    }
    grad_queries.Clear();
    const RowRange seen = rows.KeysSeenBy({first, first + lanes});
    for (int64_t block = seen.begin; block < seen.end; block += kOtherRows) {
      const int64_t count = std::min(kOtherRows, seen.end - block);
      keys.Load(block, count);
      values.Load(block, count);
      Multiply(keys.Rows(), q, kLaneStep, count, lanes, d, {scores, kLaneStep});
      HideScores(rows, first, block, count, scores);
      Multiply(values.Rows(), grad_output, kLaneStep, count, lanes, dv, {grad_scores, kLaneStep});
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t lane = 0; lane < lanes; lane += Lanes()) {
          const int64_t at = j * kLaneStep + lane;
          const Floats weight =
              Weight(hn::Sub(hn::LoadU(tag, scores + at), hn::LoadU(tag, log_sum + lane)),
                     gradients.normalized);
          hn::StoreU(hn::Mul(weight, hn::Add(hn::LoadU(tag, grad_scores + at),
                                             hn::LoadU(tag, delta + lane))),
                     tag, grad_scores + at);
        }
      }
      grad_queries.Add(grad_scores, keys, lanes, count);
    }
    counts.unusable += grad_queries.Store(gradients.grad_queries, first, lanes, rows.scale, false);
  }
  return counts;
}

// Keys along the lanes, queries stream past.
RowCounts ExactKeyGradientsOnTarget(const ExactHead& rows, const HeadGradients& gradients,
                                    RowRange range, const Context& context) {
  const int64_t d = rows.keys.size(1), dv = rows.values.size(1);
  const FloatTag tag;
  const Scratch<float> memory(context, (d + dv + 2 * kOtherRows + 1) * kLaneStep);
  float *k = memory.data(), *v = k + d * kLaneStep;
  float *scores = v + dv * kLaneStep, *grad_scores = scores + kOtherRows * kLaneStep;
  float* hidden = grad_scores + kOtherRows * kLaneStep;  // −∞ for keys that do not exist
  const Tile queries(rows.queries, nullptr, rows.scale, context),
      grad_output(gradients.grad_output, nullptr, 1, context);
  const LaneSums grad_keys(d, context), grad_values(dv, context);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += kExactBlock) {
    const int64_t lanes = std::min(kExactBlock, range.end - first);
    LoadTransposed(rows.keys, first, lanes, 1, k);
    LoadTransposed(rows.values, first, lanes, 1, v);
    std::fill_n(hidden, kLaneStep, 0.0f);
    for (int64_t lane = 0; rows.mask != nullptr && lane < lanes; ++lane) {
      if (rows.mask[first + lane] != 0) continue;
      hidden[lane] = -INFINITY;
      for (int64_t i = 0; i < d; ++i) k[i * kLaneStep + lane] = 0;
      for (int64_t i = 0; i < dv; ++i) v[i * kLaneStep + lane] = 0;
    }
    grad_keys.Clear();
    grad_values.Clear();
    const RowRange seeing = rows.QueriesSeeing({first, first + lanes});
    for (int64_t block = seeing.begin; block < seeing.end; block += kOtherRows) {
      const int64_t count = std::min(kOtherRows, seeing.end - block);
      queries.Load(block, count);
      grad_output.Load(block, count);
      Multiply(queries.Rows(), k, kLaneStep, count, lanes, d, {scores, kLaneStep});
      Multiply(grad_output.Rows(), v, kLaneStep, count, lanes, dv, {grad_scores, kLaneStep});
      for (int64_t i = 0; i < count; ++i) {
        float* score = scores + i * kLaneStep;
        HideOutside(rows.KeysSeenBy({block + i, block + i + 1}), first, score);
        const Floats log_sum = hn::Set(tag, static_cast<float>(gradients.log_sum[block + i])),
                     delta = hn::Set(tag, static_cast<float>(gradients.delta[block + i]));
        for (int64_t lane = 0; lane < lanes; lane += Lanes()) {
          float* grad_score = grad_scores + i * kLaneStep + lane;
          const Floats shown = hn::Add(hn::LoadU(tag, score + lane), hn::LoadU(tag, hidden + lane));
          const Floats weight = Weight(hn::Sub(shown, log_sum), gradients.normalized);
          hn::StoreU(weight, tag, score + lane);
          hn::StoreU(hn::Mul(weight, hn::Add(hn::LoadU(tag, grad_score), delta)), tag, grad_score);
        }
      }
      grad_values.Add(scores, grad_output, lanes, count);
      grad_keys.Add(grad_scores, queries, lanes, count);
    }
    counts.unusable += grad_keys.Store(gradients.grad_keys, first, lanes, 1, gradients.add_to_keys);
    counts.unusable +=
        grad_values.Store(gradients.grad_values, first, lanes, 1, gradients.add_to_keys);
  }
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ExactQueryGradientsOnTarget);
HWY_EXPORT(ExactKeyGradientsOnTarget);

RowCounts ExactQueryGradients(const ExactHead& rows, const HeadGradients& gradients, RowRange range,
                              const Context& context) {
  return HWY_DYNAMIC_DISPATCH(ExactQueryGradientsOnTarget)(rows, gradients, range, context);
}

RowCounts ExactKeyGradients(const ExactHead& rows, const HeadGradients& gradients, RowRange range,
                            const Context& context) {
  return HWY_DYNAMIC_DISPATCH(ExactKeyGradientsOnTarget)(rows, gradients, range, context);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
