#include "kernels/cpu/simd/exact_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/exact_rows.cc"
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

constexpr int64_t kKeyBlock = 128;
// Within a narrow window, fewer queries at a time waste fewer products with keys that only some of
// them see: two vectors, the narrowest tile at full speed. One block of keys holds a window of 64.
constexpr int64_t kNarrow = 256, kWindowKeys = 160;
constexpr int64_t kWindowQueries = std::max<int64_t>(kWidestVector, 2 * Lanes());

HWY_INLINE void ZeroVectors(float* begin, const float* end, int64_t step) {
  for (float* at = begin; at != end; at += step) hn::StoreU(hn::Zero(FloatTag()), FloatTag(), at);
}

// Queries lie along the lanes: maxima and sums over keys stay within a lane, and keys and values
// are read where they are.
RowCounts ExactOnTarget(const ExactHead& rows, RowRange range, const Context& context,
                        const HeadOutput& out) {
  const int64_t d = rows.keys.size(1), dv = rows.values.size(1);
  const FloatTag tag;
  const bool narrow = rows.window >= 0 && rows.window <= std::min(kNarrow, rows.keys.size(0) - 2);
  const int64_t query_block = narrow ? kWindowQueries : kExactBlock,
                key_block = narrow ? kWindowKeys : kKeyBlock, step = RowStep(query_block);
  const Scratch<float> memory(context, (d + key_block + 2 * dv + 4) * step),
      tile(context, query_block * RowStep(std::max(d, dv)));
  float* q = memory.data();                 // [d, queries]
  float* scores = q + d * step;             // [keys, queries]
  float* sums = scores + key_block * step;  // [dv, queries], then the denominators
  float* rest = sums + (dv + 1) * step;     // what these floats lost
  float *maximum = rest + (dv + 1) * step, *decay = maximum + step;
  ExactOperand keys(rows.keys, nullptr, key_block, context);  // masked scores are overwritten
  ExactOperand values(rows.values, rows.mask, key_block, context);
  RowCounts counts;
  for (int64_t first = range.begin; first < range.end; first += query_block) {
    const int64_t queries = std::min(query_block, range.end - first);
    LoadTile(rows.queries, nullptr, {first, first + queries}, rows.scale, tile.data());
    TransposeTile(tile.data(), queries, d, query_block, q);
    const RowRange seen = rows.KeysSeenBy({first, first + queries});
    // A single block has nothing to be added to.
    const bool adds = seen.count() > key_block || seen.count() == 0;
    if (adds) std::fill_n(sums, 2 * (dv + 1) * step, 0.0f);
    std::fill_n(maximum, step, -INFINITY);
    // Rows that the next queries read and none before them have.
    const RowRange next{first + query_block, first + 2 * query_block},
        next_keys{seen.end, seen.end + query_block};
    if (narrow) PrefetchRows(rows.queries, next);
    for (int64_t block = seen.begin; block < seen.end; block += key_block) {
      const int64_t count = std::min(key_block, seen.end - block);
      Multiply(keys.Rows(block, count), q, step, count, queries, d, {scores, step});
      if (narrow) PrefetchRows(rows.keys, next_keys);
      for (int64_t column = 0; column < queries; column += Lanes()) {
        // Keys that no query of this vector sees have no weight.
        const RowRange own = Within(rows.KeysSeenBy({first + column, first + column + Lanes()}),
                                    {block, block + count});
        float *begin = scores + (own.begin - block) * step + column,
              *end = begin + own.count() * step;
        ZeroVectors(scores + column, begin, step);
        ZeroVectors(end, scores + count * step + column, step);
        HideScores(rows, own, first + column, begin, step);
        const Floats before = hn::LoadU(tag, maximum + column);
        Floats larger = before;
        for (const float* score = begin; score != end; score += step)
          larger = hn::Max(larger, hn::LoadU(tag, score));
        // Lanes without a key so far: −∞ − (−∞) would be NaN; any finite number gives exp(−∞) = 0.
        const Floats safe = hn::Max(larger, hn::Set(tag, -3e38f));
        Floats sum = hn::Zero(tag);
        for (float* score = begin; score != end; score += step) {
          const Floats weight = Exp(hn::Sub(hn::LoadU(tag, score), safe));
          hn::StoreU(weight, tag, score);
          sum = hn::Add(sum, weight);
        }
        hn::StoreU(larger, tag, maximum + column);
        float* denominators = sums + dv * step + column;
        if (!adds) {
          hn::StoreU(sum, tag, denominators);
          continue;
        }
        const Floats factor = Exp(hn::Sub(before, safe));
        hn::StoreU(factor, tag, decay + column);
        AddExactly(sum, factor, denominators, rest + dv * step + column);
      }
      if (narrow) PrefetchRows(rows.values, next_keys);
      Multiply(
          values.Columns(block, count), scores, step, dv, queries, count,
          adds ? Result{sums, step, ResultMode::kAddExactly, rest, decay} : Result{sums, step});
    }
    float* row_sums = tile.data();
    Transpose(sums, step, dv, queries, row_sums, RowStep(dv));
    for (int64_t lane = 0; lane < queries; ++lane, row_sums += RowStep(dv)) {
      double denominator = sums[dv * step + lane];
      if (adds) {
        for (int64_t v = 0; v < dv; ++v) row_sums[v] += rest[v * step + lane];
        denominator += rest[dv * step + lane];
      }
      counts += Store(
          out, first + lane, dv, maximum[lane] > -INFINITY,
          [&]() { return static_cast<double>(maximum[lane]); }, row_sums, denominator);
    }
  }
  return counts;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ExactOnTarget);

RowCounts Exact(const ExactHead& rows, RowRange range, const Context& context,
                const HeadOutput& out) {
  return HWY_DYNAMIC_DISPATCH(ExactOnTarget)(rows, range, context, out);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
