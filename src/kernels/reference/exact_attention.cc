#include "kernels/exact_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/output_row.h"

namespace favor::kernels::reference {
namespace {

// Rows of one task.
constexpr int64_t kTaskRows = 64;

RowCounts ExactRows(const ExactHead& rows, RowRange range, const HeadOutput& out) {
  const int64_t length = rows.keys.size(0), d = rows.keys.size(1), dv = rows.values.size(1);
  RowCounts counts;
  std::vector<double> scores(static_cast<size_t>(length)), sum(static_cast<size_t>(dv));
  for (int64_t i = range.begin; i < range.end; ++i) {
    const RowRange seen = rows.KeysSeenBy({i, i + 1});
    double largest = -INFINITY;
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < d; ++c)
        dot += ElementAt(rows.queries, i, c) * ElementAt(rows.keys, j, c);
      const bool exists = rows.mask == nullptr || rows.mask[j] != 0;
      scores[static_cast<size_t>(j)] = exists ? rows.scale * dot : -INFINITY;
      largest = std::max(largest, scores[static_cast<size_t>(j)]);
    }
    const bool any = largest > -INFINITY;
    double denominator = 0;
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int64_t j = seen.begin; any && j < seen.end; ++j) {
      if (scores[static_cast<size_t>(j)] == -INFINITY) continue;  // masked: whatever it holds
      const double weight = std::exp(scores[static_cast<size_t>(j)] - largest);
      denominator += weight;
      for (int64_t c = 0; c < dv; ++c)
        sum[static_cast<size_t>(c)] += weight * ElementAt(rows.values, j, c);
    }
    counts += StoreRow(
        out, i, dv, any, largest, [&](int64_t v) { return sum[static_cast<size_t>(v)]; },
        denominator);
  }
  return counts;
}

double Dot(const ConstView& a, int64_t i, const ConstView& b, int64_t j) {
  double dot = 0;
  for (int64_t c = 0; c < a.size(1); ++c) dot += ElementAt(a, i, c) * ElementAt(b, j, c);
  return dot;
}

// P_ij and dS_ij; both are 0 if the query does not see the key.
struct Pair {
  Pair(const ExactHead& rows, const HeadGradients& gradients, int64_t i, int64_t j) {
    const RowRange seen = rows.KeysSeenBy({i, i + 1});
    const bool takes_part = j >= seen.begin && j < seen.end &&
                            (rows.mask == nullptr || rows.mask[j] != 0) &&
                            gradients.log_sum[i] < INFINITY;
    if (!takes_part) return;
    weight = std::exp(rows.scale * Dot(rows.queries, i, rows.keys, j) - gradients.log_sum[i]);
    grad_score = weight * (Dot(gradients.grad_output, i, rows.values, j) + gradients.delta[i]);
  }

  double weight = 0, grad_score = 0;
};

void Accumulate(double factor, const ConstView& rows, int64_t index, std::vector<double>& sum) {
  if (factor == 0) return;  // a masked row may hold anything
  for (size_t c = 0; c < sum.size(); ++c)
    sum[c] += factor * ElementAt(rows, index, static_cast<int64_t>(c));
}

void Store(const View& to, int64_t row, const std::vector<double>& values, bool add) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    SetElement(to, row, column, values[i] + (add ? ElementAt(to, row, column) : 0));
  }
}

void ExactQueryGradients(const ExactHead& rows, const HeadGradients& gradients) {
  for (int64_t i = 0; i < rows.queries.size(0); ++i) {
    std::vector<double> grad_query(static_cast<size_t>(rows.queries.size(1)), 0.0);
    for (int64_t j = 0; j < rows.keys.size(0); ++j)
      Accumulate(rows.scale * Pair(rows, gradients, i, j).grad_score, rows.keys, j, grad_query);
    Store(gradients.grad_queries, i, grad_query, false);
  }
}

void ExactKeyGradients(const ExactHead& rows, const HeadGradients& gradients) {
  for (int64_t j = 0; j < rows.keys.size(0); ++j) {
    std::vector<double> grad_key(static_cast<size_t>(rows.keys.size(1)), 0.0),
        grad_value(static_cast<size_t>(rows.values.size(1)), 0.0);
    for (int64_t i = 0; i < rows.queries.size(0); ++i) {
      const Pair pair(rows, gradients, i, j);
      Accumulate(rows.scale * pair.grad_score, rows.queries, i, grad_key);
      Accumulate(pair.weight, gradients.grad_output, i, grad_value);
    }
    Store(gradients.grad_keys, j, grad_key, gradients.add_to_keys);
    Store(gradients.grad_values, j, grad_value, gradients.add_to_keys);
  }
}

}  // namespace

void ExactAttention(const AttentionArguments& a, const Context& context) {
  const int64_t length = a.problem.query_length, tasks = (length + kTaskRows - 1) / kTaskRows;
  ParallelReduce(
      context, a.problem.Groups() * tasks, 1, RowCounts{},
      [&](int64_t task, int64_t) {
        const int64_t group = task / tasks, begin = task % tasks * kTaskRows;
        return ExactRows(HeadOf(a.problem, group), {begin, std::min(length, begin + kTaskRows)},
                         OutputOf(a, group));
      },
      [](RowCounts& total, const RowCounts& part) { total += part; })
      .AddTo(*a.tally);
}

void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  const Turns turns(a.problem);
  ParallelFor(context, turns.groups, [&](int64_t index) {
    for (int64_t turn = 0; turn < turns.count; ++turn) {
      const ExactHead head = HeadOf(a.problem, turns.Group(turn, index));
      const HeadGradients rows = turns.Rows(a, turn, index);
      ExactQueryGradients(head, rows);
      ExactKeyGradients(head, rows);
    }
  });
}

}  // namespace favor::kernels::reference
