#include "kernels/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/head_rows.h"
#include "kernels/output_row.h"
#include "kernels/reference/row_features.h"

namespace favor::kernels::reference {
namespace {

void AppendKey(const LinearHead& head, int64_t index, const PrefixState& state) {
  const HeadKeys& rows = head.keys;
  if (!rows.Exists(index)) return;
  state.Forget(rows.LogDecay(index));
  const RowFeatures key(head.features, FeatureRole::kKey, rows.keys, index, rows.mean,
                        rows.sqrt_scale);
  const std::vector<double> value = LoadRow(rows.values, index);
  for (size_t r = 0; r < key.exponents.size(); ++r) {
    const double c = std::max(state.c[r], key.exponents[r]);
    const double old = std::exp(state.c[r] - c),
                 now = std::exp(key.exponents[r] - c) * key.factors[r];
    state.c[r] = c;
    state.z[r] = old * state.z[r] + now;
    for (size_t v = 0; v < value.size(); ++v) {
      double& s = state.s[r * value.size() + v];
      s = old * s + now * value[v];
    }
  }
  *state.tokens += 1;
}

RowCounts ReadQuery(const LinearHead& head, int64_t index, const PrefixState& state,
                    const HeadOutput& out) {
  const HeadQueries& rows = head.queries;
  const RowFeatures query(head.features, FeatureRole::kQuery, rows.queries, index, nullptr,
                          rows.sqrt_scale);
  double rho = -INFINITY, denominator = 0;
  std::vector<double> numerator(static_cast<size_t>(state.value_dim), 0.0);
  if (!state.IsEmpty()) {
    for (size_t r = 0; r < query.exponents.size(); ++r)
      rho = std::max(rho, query.exponents[r] + state.c[r]);
    for (size_t r = 0; r < query.exponents.size(); ++r) {
      const double w = std::exp(query.exponents[r] + state.c[r] - rho) * query.factors[r];
      denominator += w * state.z[r];
      for (size_t v = 0; v < numerator.size(); ++v)
        numerator[v] += w * state.s[r * numerator.size() + v];
    }
  }
  return StoreRow(
      out, index, state.value_dim, !state.IsEmpty(),
      rho + 2 * head.features.log_normalizer + rows.MeanShift(index),
      [&](int64_t v) { return numerator[static_cast<size_t>(v)]; }, denominator);
}

}  // namespace

void LinearAttention(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  ParallelReduce(
      context, problem.Groups(), 1, RowCounts{},
      [&](int64_t group, int64_t) {
        const LinearHead head = HeadOf(problem, a.heads, group, context);
        const HeadOutput out = OutputOf(a, group);
        const StateTensors own(1, a.heads.features.width(), problem.value_dim);
        const PrefixState state = a.states.empty() ? own.views().At(0) : a.states.At(group);
        RowCounts counts;
        if (problem.window >= 0) {
          for (int64_t row = 0; row < problem.query_length; ++row) {
            const StateTensors seen(1, a.heads.features.width(), problem.value_dim);
            for (int64_t key = 0; key < problem.key_length; ++key) {
              if (problem.Sees(row, key)) AppendKey(head, key, seen.views().At(0));
            }
            counts += ReadQuery(head, row, seen.views().At(0), out);
          }
          return counts;
        }
        for (int64_t key = 0; key < problem.key_length; ++key) {
          AppendKey(head, key, state);
          if (problem.causal) counts += ReadQuery(head, key, state, out);
        }
        for (int64_t row = 0; row < problem.query_length && !problem.causal; ++row)
          counts += ReadQuery(head, row, state, out);
        return counts;
      },
      [](RowCounts& total, const RowCounts& part) { total += part; })
      .AddTo(*a.call.tally);
}

}  // namespace favor::kernels::reference
