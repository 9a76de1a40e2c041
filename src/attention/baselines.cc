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

void SetZero(const View& rows) {
  for (int64_t row = 0; row < rows.size(0); ++row) {
    for (int64_t i = 0; i < rows.size(1); ++i) SetElement(rows, row, i, 0);
  }
}

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

// Row i of the output is the mean (or sum) of the values that it sees: every value takes the
// gradients of the rows that see it, each divided by how many it sees.
void UniformGradient(const ConstView& grad_out, const float* mask, bool causal, bool renormalize,
                     const View& grad_values, bool add) {
  const int64_t rows = grad_out.size(0), keys = grad_values.size(0), dv = grad_out.size(1);
  const auto exists = [&](int64_t key) { return mask == nullptr || mask[key] != 0; };
  int64_t count = 0;  // of keys that exist, up to the row
  for (int64_t key = 0; key < keys; ++key) count += exists(key) ? 1 : 0;
  std::vector<double> sum(static_cast<size_t>(dv), 0.0);
  const auto take = [&](int64_t row) {
    for (int64_t v = 0; v < dv && count > 0; ++v) {
      sum[static_cast<size_t>(v)] +=
          ElementAt(grad_out, row, v) / (renormalize ? static_cast<double>(count) : 1);
    }
  };
  for (int64_t row = 0; row < rows && !causal; ++row) take(row);
  for (int64_t key = keys - 1; key >= 0; --key) {
    if (causal) take(key);
    for (int64_t v = 0; v < dv; ++v) {
      SetElement(grad_values, key, v,
                 (exists(key) ? sum[static_cast<size_t>(v)] : 0) +
                     (add ? ElementAt(grad_values, key, v) : 0));
    }
    if (causal && exists(key)) --count;
  }
}

// Calls work for every group, those that share values one after the other; queries and keys have no
// gradient.
template <class Work>
void ForValues(const BackwardCall& call, const Work& work) {
  ParallelFor(call.context, call.GroupsOfTurn(), [&](int64_t index) {
    for (int64_t turn = 0; turn < call.Turns(); ++turn) {
      const kernels::GradientRows rows = call.Rows(turn, index);
      SetZero(rows.grad_queries);
      if (turn == 0) SetZero(rows.grad_keys);
      work(rows.grad_output, call.problem.Mask(call.Group(turn, index)), rows.grad_values,
           rows.add_to_keys);
    }
  });
}

}  // namespace

kernels::RowCounts Uniform(const ForwardCall& call) {
  const int64_t empty = ParallelReduce(
      call.context, call.problem.Groups(), 1, int64_t{0},
      [&](int64_t group, int64_t) {
        return UniformGroup(call.problem, call.options.renormalize, group, call.Rows(group).output);
      },
      [](int64_t& total, int64_t part) { total += part; });
  return {.empty = empty};
}

kernels::RowCounts Identity(const ForwardCall& call) {
  const Problem& problem = call.problem;
  if (problem.query_length != problem.key_length) {
    Throw(ErrorCode::kInvalidData, "attend",
          "given {} queries and {} keys, expected the same number for identity attention",
          problem.query_length, problem.key_length);
  }
  const int64_t empty = ParallelReduce(
      call.context, problem.Groups(), 1, int64_t{0},
      [&](int64_t group, int64_t) {
        const ConstView values = problem.Values(group);
        const View to = call.Rows(group).output;
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
  return {.empty = empty};
}

kernels::RowCounts UniformBackward(const BackwardCall& call) {
  ForValues(call,
            [&](const ConstView& grad_out, const float* mask, const View& grad_values, bool add) {
              UniformGradient(grad_out, mask, call.problem.causal, call.options.renormalize,
                              grad_values, add);
            });
  return {};
}

kernels::RowCounts IdentityBackward(const BackwardCall& call) {
  ForValues(call,
            [&](const ConstView& grad_out, const float* mask, const View& grad_values, bool add) {
              for (int64_t row = 0; row < grad_out.size(0); ++row) {
                const bool exists = mask == nullptr || mask[row] != 0;
                for (int64_t v = 0; v < grad_out.size(1); ++v) {
                  SetElement(grad_values, row, v,
                             (exists ? ElementAt(grad_out, row, v) : 0) +
                                 (add ? ElementAt(grad_values, row, v) : 0));
                }
              }
            });
  return {};
}

}  // namespace favor::attention
