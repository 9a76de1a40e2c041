// One head of an attention call, as loops on a CPU see it: rows in, rows out.
#ifndef FAVOR_KERNELS_HEAD_ROWS_H_
#define FAVOR_KERNELS_HEAD_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "core/element.h"
#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/attention_problem.h"
#include "kernels/features.h"
#include "kernels/linear_attention.h"
#include "kernels/row_counts.h"

namespace favor::kernels {

// Rows begin … end − 1.
struct RowRange {
  int64_t begin, end;

  int64_t count() const { return end - begin; }
};

// The rows of a range that lie within another.
inline RowRange Within(RowRange rows, RowRange other) {
  const int64_t begin = std::clamp(rows.begin, other.begin, other.end);
  return {begin, std::clamp(rows.end, begin, other.end)};
}

// A map sees keys as (k − mean)·sqrt_scale.
struct HeadKeys {
  ConstView keys;                // [length, dim], any type
  ConstView values;              // [length, value_dim]
  const float* mask = nullptr;   // [length], 0: the key does not exist; null: all do
  const double* mean = nullptr;  // [dim] or null
  double sqrt_scale = 1;
  const double* log_decay =
      nullptr;  // [length], what each key makes the past forget; null: nothing

  bool Exists(int64_t key) const { return mask == nullptr || mask[key] != 0; }
  double LogDecay(int64_t key) const {
    return log_decay != nullptr && Exists(key) ? log_decay[key] : 0;
  }
};

struct HeadQueries {
  ConstView queries;  // [length, dim], any type
  double sqrt_scale = 1;
  const double* key_mean = nullptr;  // what was subtracted from the keys, [dim] or null

  // scale·q·mean: centring keys lowers the logarithm of every sum by this much.
  double MeanShift(int64_t row) const {
    if (key_mean == nullptr) return 0;
    double dot = 0;
    for (int64_t i = 0; i < queries.size(1); ++i) {
      dot += ElementAt(queries, row, i) * key_mean[i];
    }
    return sqrt_scale * sqrt_scale * dot;
  }
};

// Where results go. `output` is N/D, or N·exp(ρ + 2·log_normalizer) when not normalised; the
// logarithm of the sum (AttentionArguments) is optional. If parts (SumParts) are wanted, nothing
// else is.
struct HeadOutput {
  View output;  // [length, value_dim] f32 or f64
  bool normalize = true;
  double least_denominator = 0;   // rows with a smaller one, times e^ρ, have none
  double* log_scale = nullptr;    // [length], ρ
  double* numerator = nullptr;    // [length, value_dim]
  double* denominator = nullptr;  // [length]
  double* log_sum = nullptr;      // [length]
};

// The gradients that arrive at the rows of one head, and where the results go.
struct HeadGradients {
  ConstView grad_output;            // [query length, value_dim], any type
  const double* log_sum = nullptr;  // [query length]; +∞: the row has no gradient
  const double* delta = nullptr;    // [query length]: −dO·O, 0 when not normalised
  bool normalized = true;
  bool bounded = true;                        // AttentionGradients::bounded
  View grad_queries, grad_keys, grad_values;  // f32 or f64; null data: not wanted
  View grad_log_decay;                        // [1, key length]; null data: not wanted
  bool add_to_keys = false;  // add to grad_keys and grad_values instead of storing there
  bool add_to_queries = false;
};

// One head of linear attention: its map, its rows and its chunk. Rows that a kernel does not read
// may be left out.
struct LinearHead {
  HeadFeatures features;
  const Context& context;
  HeadQueries queries = {};
  HeadKeys keys = {};
  int64_t chunk = kDefaultChunk;
};
LinearHead HeadOf(const AttentionProblem& problem, const LinearHeads& heads, int64_t group,
                  const Context& context);

// One head of exact attention.
struct ExactHead {
  ConstView queries, keys, values;  // [length, dim or value_dim], any type
  const float* mask = nullptr;      // [key length]
  double scale = 1;
  bool causal = false;  // query i sees keys 0 … before + i
  int64_t before = 0;
  int64_t window = -1;  // ≥ 0: only keys within that distance of before + i

  // Without the mask: the keys that some query of a range sees (of one query: all of them), and
  // the queries that see some key of a range.
  RowRange KeysSeenBy(RowRange range) const {
    RowRange seen{0, keys.size(0)};
    if (window >= 0) {
      seen.begin = std::max(seen.begin, before + range.begin - window);
      seen.end = std::min(seen.end, before + range.end + window);
    }
    if (causal) seen.end = std::min(seen.end, before + range.end);
    return {std::min(seen.begin, seen.end), seen.end};
  }
  RowRange QueriesSeeing(RowRange range) const {
    RowRange seeing{0, queries.size(0)};
    if (window >= 0) {
      seeing.begin = std::max(seeing.begin, range.begin - before - window);
      seeing.end = std::min(seeing.end, range.end - before + window);
    }
    if (causal) seeing.begin = std::max(seeing.begin, range.begin - before);
    return {seeing.begin, std::max(seeing.begin, seeing.end)};
  }
};
ExactHead HeadOf(const AttentionProblem& problem, int64_t group);

HeadOutput OutputOf(const AttentionArguments& call, int64_t group);
HeadOutput OutputOf(const LinearArguments& a, int64_t group);

// Query heads that share keys take turns in a backward call: turn t of [batch, kv_heads] has one
// group each, and later turns add to the gradients of keys and values.
class Turns {
 public:
  explicit Turns(const AttentionProblem& problem)
      : count(problem.heads / problem.kv_heads), groups(problem.batch * problem.kv_heads) {}

  int64_t Group(int64_t turn, int64_t index) const { return index * count + turn; }
  HeadGradients Rows(const AttentionGradients& call, int64_t turn, int64_t index) const;

  const int64_t count;   // number of turns
  const int64_t groups;  // groups of each turn
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_HEAD_ROWS_H_
