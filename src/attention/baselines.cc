// What attention must beat: `uniform` ignores queries and keys and gives the mean of the values;
// `identity` gives every token its own value (the optimum line of the Performers paper: no token
// sees another).
#include <vector>

#include "attention/kinds.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/parallel.h"

namespace favor::attention {
namespace {

// A running sum over keys; row i takes it after key i when causal, all rows take the whole
// otherwise.
int64_t UniformGroup(const Problem& problem, bool renormalize, int64_t group, View out) {
  const ConstView values = problem.Values(group);
  const float* mask = problem.Mask(group);
  std::vector<double> sum(static_cast<size_t>(problem.value_dim), 0.0);
  double count = 0;
  int64_t empty = 0;
  const auto add = [&](int64_t key) {
    if (mask != nullptr && mask[key] == 0) return;
    count += 1;
    for (size_t v = 0; v < sum.size(); ++v)
      sum[v] += ElementAt(values, key, static_cast<int64_t>(v));
  };
  const auto store = [&](int64_t row) {
    empty += count == 0 ? 1 : 0;
    for (size_t v = 0; v < sum.size(); ++v) {
      SetElement(out, row, static_cast<int64_t>(v),
                 count == 0    ? 0
                 : renormalize ? sum[v] / count
                               : sum[v]);
    }
  };
  if (problem.causal) {
    for (int64_t row = 0; row < problem.query_length; ++row) {
      add(row);
      store(row);
    }
  } else {
    for (int64_t key = 0; key < problem.key_length; ++key) add(key);
    for (int64_t row = 0; row < problem.query_length; ++row) store(row);
  }
  return empty;
}

}  // namespace

AttentionReport Uniform(const Problem& problem, const AttentionOptions& options,
                        const Context& context, View out) {
  const int64_t empty = ParallelReduce(
      context, problem.Groups(), 1, int64_t{0},
      [&](int64_t group, int64_t) {
        return UniformGroup(problem, options.renormalize, group,
                            out.At(problem.Batch(group)).At(problem.Head(group)));
      },
      [](int64_t& total, int64_t part) { total += part; });
  return {.nonpositive_rows = 0, .empty_rows = empty};
}

AttentionReport Identity(const Problem& problem, const AttentionOptions&, const Context& context,
                         View out) {
  if (problem.query_length != problem.key_length) {
    Throw(ErrorCode::kInvalidData, "attend",
          "given {} queries and {} keys, expected the same number for identity attention",
          problem.query_length, problem.key_length);
  }
  const int64_t empty = ParallelReduce(
      context, problem.Groups(), 1, int64_t{0},
      [&](int64_t group, int64_t) {
        const ConstView values = problem.Values(group);
        const View to = out.At(problem.Batch(group)).At(problem.Head(group));
        const float* mask = problem.Mask(group);
        int64_t masked = 0;
        for (int64_t row = 0; row < problem.query_length; ++row) {
          const bool exists = mask == nullptr || mask[row] != 0;
          masked += exists ? 0 : 1;
          for (int64_t v = 0; v < problem.value_dim; ++v)
            SetElement(to, row, v, exists ? ElementAt(values, row, v) : 0);
        }
        return masked;
      },
      [](int64_t& total, int64_t part) { total += part; });
  return {.nonpositive_rows = 0, .empty_rows = empty};
}

}  // namespace favor::attention
