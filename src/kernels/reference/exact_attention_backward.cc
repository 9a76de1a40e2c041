#include "kernels/exact_attention_backward.h"

#include <cmath>
#include <vector>

#include "core/element.h"

namespace favor::kernels::reference {
namespace {

double Dot(const ConstView& a, int64_t i, const ConstView& b, int64_t j) {
  double dot = 0;
  for (int64_t c = 0; c < a.size(1); ++c) dot += ElementAt(a, i, c) * ElementAt(b, j, c);
  return dot;
}

// P_ij and dS_ij; both 0 where the query does not see the key.
struct Pair {
  Pair(const ExactRows& rows, const GradientRows& gradients, int64_t i, int64_t j) {
    const bool seen = (!rows.causal || j <= i) && (rows.mask == nullptr || rows.mask[j] != 0) &&
                      gradients.log_sum[i] < INFINITY;
    if (!seen) return;
    weight = std::exp(rows.scale * Dot(rows.queries, i, rows.keys, j) - gradients.log_sum[i]);
    grad_score = weight * (Dot(gradients.grad_output, i, rows.values, j) + gradients.delta[i]);
  }

  double weight = 0, grad_score = 0;
};

void Accumulate(double factor, const ConstView& rows, int64_t index, std::vector<double>& sum) {
  if (factor == 0) return;  // whatever a masked row holds
  for (size_t c = 0; c < sum.size(); ++c)
    sum[c] += factor * ElementAt(rows, index, static_cast<int64_t>(c));
}

void Store(const View& to, int64_t row, const std::vector<double>& values, bool add) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    SetElement(to, row, column, values[i] + (add ? ElementAt(to, row, column) : 0));
  }
}

}  // namespace

RowCounts ExactQueryGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                              int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    std::vector<double> grad_query(static_cast<size_t>(rows.queries.size(1)), 0.0);
    for (int64_t j = 0; j < rows.keys.size(0); ++j)
      Accumulate(rows.scale * Pair(rows, gradients, i, j).grad_score, rows.keys, j, grad_query);
    Store(gradients.grad_queries, i, grad_query, false);
  }
  return {};
}

RowCounts ExactKeyGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                            int64_t end) {
  for (int64_t j = begin; j < end; ++j) {
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
  return {};
}

}  // namespace favor::kernels::reference
