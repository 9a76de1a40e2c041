#include "kernels/cpu/simd/band_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/band_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/gradient_tiles-inl.h"
#include "kernels/cpu/simd/linear_state-inl.h"
#include "kernels/cpu/simd/output-inl.h"
#include "kernels/cpu/simd/weighed_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Rows of tiles that hold rows of the band's other side.
HWY_INLINE int64_t OtherRows(const Band& band, int64_t rows) {
  return rows + band.behind + band.ahead;
}

// Elements of products that lie outside of `seen`, the columns that row `row` takes part in,
// become 0; columns count from `first`.
HWY_INLINE void KeepSeen(RowRange seen, int64_t first, int64_t count, float* row) {
  std::fill(row, row + std::clamp<int64_t>(seen.begin - first, 0, count), 0.0f);
  std::fill(row + std::clamp<int64_t>(seen.end - first, 0, count), row + count, 0.0f);
}

class BandPass {
 public:
  BandPass(const LinearHead& head, const Band& band, int64_t rows, const HeadOutput& out)
      : head_(head),
        band_(band),
        out_(out),
        value_dim_(head.keys.values.size(1)),
        value_step_(RowStep(value_dim_)),
        product_step_(RowStep(OtherRows(band, rows))),
        queries_(head.features, rows, head.context),
        keys_(head.features, OtherRows(band, rows), value_dim_, /*backward=*/false, head.context),
        none_(static_cast<size_t>(head.features.width), -INFINITY),
        no_z_(static_cast<size_t>(PaddedColumns(head.features.width)), 0.0f),
        numerators_(head.context, rows * value_step_),
        products_(head.context, rows * product_step_) {}

  RowCounts Run(int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const RowRange seen = band_.KeysSeenBy({begin, end}, head_.keys.keys.size(0));
    RowCounts counts;
    counts.unusable =
        queries_.Load(head_.queries, begin, end) + keys_.LoadKeys(head_.keys, seen.begin, seen.end);
    if (keys_.tokens() == 0) {
      for (int64_t row = begin; row < end; ++row) counts += StoreEmpty(out_, row, value_dim_);
      return counts;
    }
    keys_.FindMaximum(none_);
    keys_.Weigh();
    queries_.Weigh(keys_.maximum(), no_z_.data());
    const FeaturePanel &q = queries_.panel(), &k = keys_.panel();
    MultiplyRows(q.Weights(0), q.step(), k.Weights(0), k.step(), count, seen.count(), q.padded(),
                 /*lower=*/false, products_.data(), product_step_);
    for (int64_t row = 0; row < count; ++row) {
      float* products = products_.data() + row * product_step_;
      KeepSeen(Seen(begin + row), seen.begin, seen.count(), products);
      float sum = 0;
      for (int64_t key = 0; key < seen.count(); ++key) sum += products[key];
      queries_.Denominator(row) = sum;
    }
    if (count > 1 && SomeRowIsLost(begin, seen.begin)) {
      const int64_t middle = begin + count / 2;
      RowCounts halves = Run(begin, middle);
      return halves += Run(middle, end);
    }
    Multiply({products_.data(), product_step_, 1}, keys_.values(), keys_.value_step(), count,
             value_dim_, seen.count(), {numerators_.data(), value_step_});
    for (int64_t row = 0; row < count; ++row) {
      if (!SeesAny(begin + row, seen.begin)) {
        counts += StoreEmpty(out_, begin + row, value_dim_);
        continue;
      }
      counts += Store(
          out_, begin + row, value_dim_, true,
          [&]() { return queries_.LogScale(head_.queries, begin, row); },
          numerators_.data() + row * value_step_, queries_.Denominator(row));
    }
    return counts;
  }

 private:
  RowRange Seen(int64_t row) const {
    return band_.KeysSeenBy({row, row + 1}, head_.keys.keys.size(0));
  }
  bool SeesAny(int64_t row, int64_t first) const {
    const RowRange seen = Seen(row);
    for (int64_t key = seen.begin; key < seen.end; ++key) {
      if (keys_.Exists(key - first)) return true;
    }
    return false;
  }
  // As in CausalPass.
  bool SomeRowIsLost(int64_t begin, int64_t first) {
    for (int64_t row = 0; row < queries_.count(); ++row) {
      if (!SeesAny(begin + row, first)) continue;
      if (DenominatorTells(*head_.features.map)) {
        if (std::fabs(queries_.Denominator(row)) < kLeastDenominator) return true;
        continue;
      }
      const RowRange seen = Seen(begin + row);
      float reach = -INFINITY;
      for (int64_t key = seen.begin; key < seen.end; ++key) {
        if (keys_.Exists(key - first)) reach = std::max(reach, keys_.LogWeight(key - first));
      }
      if (reach < kLeastExponent) return true;
    }
    return false;
  }

  const LinearHead& head_;
  const Band& band_;
  const HeadOutput& out_;
  int64_t value_dim_, value_step_, product_step_;
  WeighedQueries queries_;
  AppendedRows keys_;
  std::vector<double> none_;  // maxima of no keys
  AlignedVector<float> no_z_;
  Scratch<float> numerators_, products_;
};

// Gradients of one side's rows from the rows of the other side that take part with them. Rows whose
// weights leave the range of floats are halved until each has maxima of its own.
class BandGradients {
 public:
  BandGradients(const LinearHead& head, const Band& band, const HeadGradients& gradients,
                int64_t queries, int64_t keys)
      : head_(head),
        band_(band),
        gradients_(gradients),
        width_(head.features.width),
        value_dim_(head.keys.values.size(1)),
        product_step_(RowStep(keys)),
        queries_(head.features, queries, value_dim_, /*backward=*/true, head.context),
        keys_(head.features, keys, value_dim_, /*backward=*/true, head.context),
        none_(static_cast<size_t>(width_), -INFINITY),
        products_(head.context, 2 * ((queries + 3) / 4 * 4) * product_step_),
        weight_products_(products_.data() + (queries + 3) / 4 * 4 * product_step_),
        tiles_(head, (std::min(queries, keys) + 3) / 4 * 4, value_dim_) {}

  RowCounts OfQueries(int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const RowRange seen = band_.KeysSeenBy({begin, end}, head_.keys.keys.size(0));
    RowCounts counts;
    counts.unusable = Load({begin, end}, seen);
    if (keys_.tokens() > 0) {
      keys_.FindMaximum(none_);
      queries_.SetMaximum(-1, keys_.maximum());
      if (count > 1 && queries_.AnyWeightBeyond(kLargestExponent)) {
        const int64_t middle = begin + count / 2;
        RowCounts halves = OfQueries(begin, middle);
        return halves += OfQueries(middle, end);
      }
      keys_.Weigh();
      counts.unusable += Beyond(head_, queries_, gradients_);
      queries_.Weigh(kWeightLimit);
      ValueProducts({begin, end}, seen);
      Multiply({products_.data(), product_step_, 1}, keys_.panel().Weights(0), keys_.panel().step(),
               count, width_, seen.count(), {tiles_.grad_weights, tiles_.weight_step});
      queries_.panel().Backward(count, tiles_.grad_weights, tiles_.grad_x, tiles_.x_step);
    } else {
      std::fill_n(tiles_.grad_x, count * tiles_.x_step, 0.0f);
    }
    counts.unusable +=
        StoreGradient(gradients_.grad_queries, begin, count, tiles_.grad_x, tiles_.x_step,
                      head_.queries.sqrt_scale, gradients_.add_to_queries);
    return counts;
  }

  RowCounts OfKeys(int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const RowRange seeing = band_.QueriesSeeing({begin, end}, head_.queries.queries.size(0));
    RowCounts counts;
    counts.unusable = Load(seeing, {begin, end});
    if (queries_.tokens() > 0) {
      queries_.FindMaximum(none_);
      keys_.SetMaximum(-1, queries_.maximum());
      if (count > 1 && keys_.AnyWeightBeyond(kLargestExponent)) {
        const int64_t middle = begin + count / 2;
        RowCounts halves = OfKeys(begin, middle);
        return halves += OfKeys(middle, end);
      }
      queries_.Weigh();
      counts.unusable += Beyond(head_, keys_, gradients_);
      keys_.Weigh(kWeightLimit);
      const FeaturePanel& q = queries_.panel();
      FeaturePanel& k = keys_.panel();
      MultiplyRows(q.Weights(0), q.step(), k.Weights(0), k.step(), seeing.count(), count,
                   q.padded(), /*lower=*/false, weight_products_, product_step_);
      KeepPairs(seeing, {begin, end}, weight_products_);
      Multiply({weight_products_, 1, product_step_}, queries_.values(), queries_.value_step(),
               count, value_dim_, seeing.count(), {tiles_.grad_value, tiles_.value_step});
      ValueProducts(seeing, {begin, end});
      Multiply({products_.data(), 1, product_step_}, q.Weights(0), q.step(), count, width_,
               seeing.count(), {tiles_.grad_weights, tiles_.weight_step});
      k.Backward(count, tiles_.grad_weights, tiles_.grad_x, tiles_.x_step);
    } else {
      std::fill_n(tiles_.grad_x, count * tiles_.x_step, 0.0f);
      std::fill_n(tiles_.grad_value, count * tiles_.value_step, 0.0f);
    }
    counts.unusable += StoreGradient(gradients_.grad_keys, begin, count, tiles_.grad_x,
                                     tiles_.x_step, head_.keys.sqrt_scale, gradients_.add_to_keys);
    counts.unusable += StoreGradient(gradients_.grad_values, begin, count, tiles_.grad_value,
                                     tiles_.value_step, 1, gradients_.add_to_keys);
    return counts;
  }

 private:
  int64_t Load(RowRange queries, RowRange keys) {
    return queries_.LoadQueries(head_.queries, gradients_, queries.begin, queries.end) +
           keys_.LoadKeys(head_.keys, keys.begin, keys.end);
  }

  // products[i, j] = dO_i·v_j + δ_i if i sees j, otherwise 0
  void ValueProducts(RowRange queries, RowRange keys) {
    MultiplyRows(queries_.values(), queries_.value_step(), keys_.values(), keys_.value_step(),
                 queries.count(), keys.count(), value_dim_ + 1, /*lower=*/false, products_.data(),
                 product_step_);
    KeepPairs(queries, keys, products_.data());
  }

  void KeepPairs(RowRange queries, RowRange keys, float* products) const {
    for (int64_t row = 0; row < queries.count(); ++row) {
      const int64_t query = queries.begin + row;
      KeepSeen(band_.KeysSeenBy({query, query + 1}, head_.keys.keys.size(0)), keys.begin,
               keys.count(), products + row * product_step_);
    }
  }

  const LinearHead& head_;
  const Band& band_;
  const HeadGradients& gradients_;
  int64_t width_, value_dim_, product_step_;
  AppendedRows queries_, keys_;
  std::vector<double> none_;
  Scratch<float> products_;
  float* weight_products_;
  GradientTiles tiles_;
};

RowCounts BandOnTarget(const LinearHead& head, const Band& band, RowRange range, int64_t tile,
                       const HeadOutput& out) {
  BandPass pass(head, band, std::min(tile, range.count()), out);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += tile)
    counts += pass.Run(first, std::min(range.end, first + tile));
  return counts;
}

RowCounts BandQueryGradientsOnTarget(const LinearHead& head, const Band& band,
                                     const HeadGradients& gradients, RowRange range, int64_t tile) {
  const int64_t rows = std::min(tile, range.count());
  BandGradients pass(head, band, gradients, rows, OtherRows(band, rows));
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += tile)
    counts += pass.OfQueries(first, std::min(range.end, first + tile));
  return counts;
}

RowCounts BandKeyGradientsOnTarget(const LinearHead& head, const Band& band,
                                   const HeadGradients& gradients, RowRange range, int64_t tile) {
  const int64_t rows = std::min(tile, range.count());
  BandGradients pass(head, band, gradients, OtherRows(band, rows), rows);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += tile)
    counts += pass.OfKeys(first, std::min(range.end, first + tile));
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(BandOnTarget);
HWY_EXPORT(BandQueryGradientsOnTarget);
HWY_EXPORT(BandKeyGradientsOnTarget);

RowCounts BandRows(const LinearHead& head, const Band& band, RowRange range, int64_t tile,
                   const HeadOutput& out) {
  return HWY_DYNAMIC_DISPATCH(BandOnTarget)(head, band, range, tile, out);
}

RowCounts BandQueryGradients(const LinearHead& head, const Band& band,
                             const HeadGradients& gradients, RowRange range, int64_t tile) {
  return HWY_DYNAMIC_DISPATCH(BandQueryGradientsOnTarget)(head, band, gradients, range, tile);
}

RowCounts BandKeyGradients(const LinearHead& head, const Band& band, const HeadGradients& gradients,
                           RowRange range, int64_t tile) {
  return HWY_DYNAMIC_DISPATCH(BandKeyGradientsOnTarget)(head, band, gradients, range, tile);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
