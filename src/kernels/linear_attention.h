// Linear attention of one head on the prefix state: append keys, read queries, and the causal pass
// in chunks.
//
// Within a causal chunk the maxima c_r cover keys that its first rows may not see. A row whose
// denominator falls under 2⁻⁹⁰ for that reason is recomputed with half the chunk, down to single
// tokens, where D ≥ 1 again.
#ifndef FAVOR_KERNELS_LINEAR_ATTENTION_H_
#define FAVOR_KERNELS_LINEAR_ATTENTION_H_

#include <cstdint>

#include "core/element.h"
#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/features.h"
#include "kernels/prefix_state.h"

namespace favor::kernels {

// One head of the keys' side. Rows act on the map as (k − mean)·sqrt_scale.
struct KeyRows {
  ConstView keys;                // [length, dim], any type
  ConstView values;              // [length, value_dim]
  const float* mask = nullptr;   // [length], 0: the key does not exist; null: all do
  const double* mean = nullptr;  // [dim] or null
  double sqrt_scale = 1;
};

struct QueryRows {
  ConstView queries;  // [length, dim], any type
  double sqrt_scale = 1;
  const double* key_mean = nullptr;  // what was subtracted from the keys, [dim] or null

  // scale·q·mean, by which centred keys lower the logarithm of every sum.
  double MeanShift(int64_t row) const {
    if (key_mean == nullptr) return 0;
    double dot = 0;
    for (int64_t i = 0; i < queries.size(1); ++i) {
      dot += ElementAt(queries, row, i) * key_mean[i];
    }
    return sqrt_scale * sqrt_scale * dot;
  }
};

// Of values and gradients: sums over millions of keys stay within float.
constexpr double kLargestValue = 1e30;
// Of scale·‖x‖²: up to here differences of exponents, kept in double, still mean something. Beyond,
// attention has one key only.
constexpr double kLargestNorm = 1e15;
constexpr int64_t kDefaultChunk = 60;  // rows of a causal chunk

// What became of the rows of a call.
struct [[nodiscard]] RowCounts {
  int64_t nonpositive = 0;  // denominators ≤ 0, possible with signed maps: such an output row is 0
  int64_t empty = 0;        // rows without any key: 0 too
  int64_t unusable = 0;     // rows of arguments or results that are not finite or out of range

  RowCounts& operator+=(const RowCounts& other) {
    nonpositive += other.nonpositive;
    empty += other.empty;
    unusable += other.unusable;
    return *this;
  }
};

// Where results go. `output` is N/D, or N·exp(ρ + 2·log_normalizer) when not normalised. The parts
// are optional: ρ is the true logarithm (query norms and normalisers included), so that reads of
// several states combine.
struct OutputRows {
  View output;  // [length, value_dim] f32 or f64; null data: not wanted
  bool normalize = true;
  double* log_scale = nullptr;    // [length], ρ
  double* numerator = nullptr;    // [length, value_dim]
  double* denominator = nullptr;  // [length]
  // [length], what a backward pass needs: log Σ_j K(q, k_j), normalisers included; 0 when not
  // normalised; +∞ where the output row is 0 by definition.
  double* log_sum = nullptr;
};

// One head of a call: its map, its rows and how to go through them. Rows that a kernel does not
// read may be left out.
struct LinearHead {
  const HeadFeatures& features;
  const Context& context;
  QueryRows queries = {};
  KeyRows keys = {};
  int64_t chunk = kDefaultChunk;
};

// Rows begin … end − 1.
struct RowRange {
  int64_t begin, end;

  int64_t count() const { return end - begin; }
};

//   AppendKeys    adds keys to the state
//   ReadQueries   attention of queries to what the state holds
//   Causal        rows after those in `state`, which moves on to the end of the range
namespace reference {  // token by token, in double
RowCounts AppendKeys(const LinearHead& head, RowRange range, PrefixState& state);
RowCounts ReadQueries(const LinearHead& head, RowRange range, const PrefixState& state,
                      const OutputRows& out);
RowCounts Causal(const LinearHead& head, RowRange range, PrefixState& state, const OutputRows& out);
}  // namespace reference

namespace cpu {  // in panels; a causal call `chunk` rows at a time
RowCounts AppendKeys(const LinearHead& head, RowRange range, PrefixState& state);
RowCounts ReadQueries(const LinearHead& head, RowRange range, const PrefixState& state,
                      const OutputRows& out);
RowCounts Causal(const LinearHead& head, RowRange range, PrefixState& state, const OutputRows& out);
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_ATTENTION_H_
