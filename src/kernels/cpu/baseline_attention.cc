#include "kernels/baseline_attention.h"

#include <algorithm>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/head_rows.h"

namespace favor::kernels::cpu {
namespace {

void SetZero(const View& rows) {
  if (rows.empty()) return;
  for (int64_t row = 0; row < rows.size(0); ++row) {
    for (int64_t i = 0; i < rows.size(1); ++i) SetElement(rows, row, i, 0);
  }
}

// One row, fast if both are contiguous floats.
void CopyRow(const ConstView& from, const View& to, int64_t row) {
  if (from.type() == DataType::kF32 && to.type() == DataType::kF32 && from.stride(1) == 1 &&
      to.stride(1) == 1) {
    std::copy_n(static_cast<const float*>(from.data()) + row * from.stride(0), from.size(1),
                static_cast<float*>(to.data()) + row * to.stride(0));
    return;
  }
  for (int64_t i = 0; i < from.size(1); ++i) SetElement(to, row, i, ElementAt(from, row, i));
}

// A running sum over keys: row i takes it after key i if causal, else every row takes the whole
// sum.
RowCounts UniformGroup(const AttentionArguments& a, int64_t group) {
  const AttentionProblem& problem = a.problem;
  const ConstView values = problem.OfKeys(problem.v, group);
  const View out = problem.OfQueries(a.out, group);
  const float* mask = problem.Mask(group);
  std::vector<double> sum(static_cast<size_t>(problem.value_dim), 0.0);
  double count = 0;
  RowCounts counts;
  const auto add = [&](int64_t key) {
    if (mask != nullptr && mask[key] == 0) return;
    count += 1;
    for (size_t v = 0; v < sum.size(); ++v)
      sum[v] += ElementAt(values, key, static_cast<int64_t>(v));
  };
  const auto store = [&](int64_t row) {
    counts.empty += count == 0 ? 1 : 0;
    for (size_t v = 0; v < sum.size(); ++v) {
      SetElement(out, row, static_cast<int64_t>(v),
                 count == 0          ? 0
                 : problem.normalize ? sum[v] / count
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
  return counts;
}

// Row i of the output is the mean (or sum) of the values that it sees: every value takes the
// gradients of the rows that see it, each divided by the number of values that the row sees.
void UniformGradient(const AttentionProblem& problem, const float* mask,
                     const HeadGradients& rows) {
  const ConstView& grad_out = rows.grad_output;
  const View& grad_values = rows.grad_values;
  const int64_t keys = grad_values.size(0), dv = grad_out.size(1);
  const auto exists = [&](int64_t key) { return mask == nullptr || mask[key] != 0; };
  int64_t count = 0;  // existing keys up to the row
  for (int64_t key = 0; key < keys; ++key) count += exists(key) ? 1 : 0;
  std::vector<double> sum(static_cast<size_t>(dv), 0.0);
  const auto take = [&](int64_t row) {
    for (int64_t v = 0; v < dv && count > 0; ++v) {
      sum[static_cast<size_t>(v)] +=
          ElementAt(grad_out, row, v) / (problem.normalize ? static_cast<double>(count) : 1);
    }
  };
  for (int64_t row = 0; row < grad_out.size(0) && !problem.causal; ++row) take(row);
  for (int64_t key = keys - 1; key >= 0; --key) {
    if (problem.causal) take(key);
    for (int64_t v = 0; v < dv; ++v) {
      SetElement(grad_values, key, v,
                 (exists(key) ? sum[static_cast<size_t>(v)] : 0) +
                     (rows.add_to_keys ? ElementAt(grad_values, key, v) : 0));
    }
    if (problem.causal && exists(key)) --count;
  }
}

void IdentityGradient(const float* mask, const HeadGradients& rows) {
  for (int64_t row = 0; row < rows.grad_output.size(0); ++row) {
    const bool exists = mask == nullptr || mask[row] != 0;
    if (exists && !rows.add_to_keys) {
      CopyRow(rows.grad_output, rows.grad_values, row);
      continue;
    }
    for (int64_t v = 0; v < rows.grad_output.size(1); ++v) {
      SetElement(rows.grad_values, row, v,
                 (exists ? ElementAt(rows.grad_output, row, v) : 0) +
                     (rows.add_to_keys ? ElementAt(rows.grad_values, row, v) : 0));
    }
  }
}

// Calls work(mask, rows) for every group; groups that share values run one after the other. Queries
// and keys have no gradient.
template <class Work>
void ForValues(const AttentionGradients& a, const Context& context, const Work& work) {
  const Turns turns(a.problem);
  ParallelFor(context, turns.groups, [&](int64_t index) {
    for (int64_t turn = 0; turn < turns.count; ++turn) {
      const HeadGradients rows = turns.Rows(a, turn, index);
      SetZero(rows.grad_queries);
      if (turn == 0) SetZero(rows.grad_keys);
      work(a.problem.Mask(turns.Group(turn, index)), rows);
    }
  });
}

}  // namespace

void UniformAttention(const AttentionArguments& a, const Context& context) {
  SumPieces(context, a.problem.Groups(), [&](int64_t group) {
    return UniformGroup(a, group);
  }).AddTo(*a.tally);
}

void IdentityAttention(const AttentionArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  SumPieces(context, problem.Groups(), [&](int64_t group) {
    const ConstView values = problem.OfKeys(problem.v, group);
    const View to = problem.OfQueries(a.out, group);
    const float* mask = problem.Mask(group);
    RowCounts counts;
    for (int64_t row = 0; row < problem.query_length; ++row) {
      const bool exists = mask == nullptr || mask[row] != 0;
      counts.empty += exists ? 0 : 1;
      if (exists) {
        CopyRow(values, to, row);
      } else {
        for (int64_t v = 0; v < problem.value_dim; ++v) SetElement(to, row, v, 0);
      }
    }
    return counts;
  }).AddTo(*a.tally);
}

void UniformAttentionBackward(const AttentionGradients& a, const Context& context) {
  ForValues(a, context, [&](const float* mask, const HeadGradients& rows) {
    UniformGradient(a.problem, mask, rows);
  });
}

void IdentityAttentionBackward(const AttentionGradients& a, const Context& context) {
  ForValues(a, context,
            [](const float* mask, const HeadGradients& rows) { IdentityGradient(mask, rows); });
}

}  // namespace favor::kernels::cpu
