// Linear attention to the few keys around a query, pair by pair: tiles of a band along the diagonal
// in place of states.
#ifndef FAVOR_KERNELS_CPU_SIMD_BAND_ROWS_H_
#define FAVOR_KERNELS_CPU_SIMD_BAND_ROWS_H_

#include <algorithm>

#include "kernels/head_rows.h"

namespace favor::kernels::cpu {

// Bands of at most this many keys besides the query's own cost less than states (favor_bench
// --benchmark_filter=Window; docs/performance.md).
constexpr int64_t kWidestBand = 128;

// The query in row i sees keys i + before − behind … i + before + ahead of those that there are.
struct Band {
  int64_t before, behind, ahead;

  RowRange KeysSeenBy(RowRange queries, int64_t keys) const {
    return {std::clamp<int64_t>(queries.begin + before - behind, 0, keys),
            std::clamp<int64_t>(queries.end + before + ahead, 0, keys)};
  }
  RowRange QueriesSeeing(RowRange keys, int64_t queries) const {
    return {std::clamp<int64_t>(keys.begin - before - ahead, 0, queries),
            std::clamp<int64_t>(keys.end - before + behind, 0, queries)};
  }
};

// Rows of the range, in tiles of `tile` rows.
RowCounts BandRows(const LinearHead& head, const Band& band, RowRange range, int64_t tile,
                   const HeadOutput& out);
// Gradients of the queries, or of the keys and values, of the range.
RowCounts BandQueryGradients(const LinearHead& head, const Band& band,
                             const HeadGradients& gradients, RowRange range, int64_t tile);
RowCounts BandKeyGradients(const LinearHead& head, const Band& band, const HeadGradients& gradients,
                           RowRange range, int64_t tile);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_BAND_ROWS_H_
