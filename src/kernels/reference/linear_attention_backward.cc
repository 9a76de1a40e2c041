#include "kernels/linear_attention_backward.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/centring_gradients.h"
#include "kernels/head_rows.h"
#include "kernels/reference/row_features.h"

namespace favor::kernels::reference {
namespace {

// A query with its gradient: exponents relative to log_sum, dO and δ.
struct Adjoint {
  Adjoint(const LinearHead& head, const HeadGradients& gradients, int64_t index)
      : features(head.features, FeatureRole::kQuery, head.queries.queries, index, nullptr,
                 head.queries.sqrt_scale),
        gradient(LoadRow(gradients.grad_output, index)),
        delta(gradients.delta[index]) {
    const double shift =
        2 * head.features.log_normalizer + head.queries.MeanShift(index) - gradients.log_sum[index];
    for (double& exponent : features.exponents) exponent += shift;
  }

  static bool Exists(const HeadGradients& gradients, int64_t index) {
    return gradients.log_sum[index] < INFINITY;
  }

  RowFeatures features;
  std::vector<double> gradient;
  double delta;
};

// state ← state + row, with the weight `multiple` in z.
void Append(const RowFeatures& row, const std::vector<double>& value, double multiple,
            const PrefixState& state) {
  for (size_t r = 0; r < row.exponents.size(); ++r) {
    const double c = std::max(state.c[r], row.exponents[r]);
    const double old = std::exp(state.c[r] - c);
    const double now = std::exp(row.exponents[r] - c) * row.factors[r];
    state.c[r] = c;
    state.z[r] = old * state.z[r] + multiple * now;
    for (size_t v = 0; v < value.size(); ++v) {
      double& s = state.s[r * value.size() + v];
      s = old * s + now * value[v];
    }
  }
  *state.tokens += 1;
}

// The gradient of a row whose weights read `state` with `value` and, for z, `multiple`.
struct RowGradient {
  std::vector<double> x;    // gradient of x, times the scale that made x
  double log_weight = 0.0;  // gradient of a number added to all exponents of the row
};
RowGradient ReadGradient(const HeadFeatures& head, const RowFeatures& row,
                         const std::vector<double>& value, double multiple, double scale,
                         const PrefixState& state) {
  const size_t width = row.exponents.size();
  std::vector<double> grad_exponents(width, 0.0), grad_factors(width, 0.0);
  RowGradient result{.x = std::vector<double>(row.x.size())};
  for (size_t r = 0; r < width && !state.IsEmpty(); ++r) {
    double gradient = multiple * state.z[r];
    for (size_t v = 0; v < value.size(); ++v) gradient += value[v] * state.s[r * value.size() + v];
    grad_factors[r] = std::exp(row.exponents[r] + state.c[r]) * gradient;
    grad_exponents[r] = grad_factors[r] * row.factors[r];
    result.log_weight += grad_exponents[r];
  }
  FeatureGradientOf(head, row.role, row.x.data(), grad_exponents.data(), grad_factors.data(),
                    result.x.data());
  for (double& gradient : result.x) gradient *= scale;
  return result;
}

// Σ_r w_r s_r for a key: its value's gradient.
std::vector<double> ReadValue(const RowFeatures& row, const PrefixState& state) {
  std::vector<double> sum(static_cast<size_t>(state.value_dim), 0.0);
  for (size_t r = 0; r < row.exponents.size() && !state.IsEmpty(); ++r) {
    const double weight = std::exp(row.exponents[r] + state.c[r]) * row.factors[r];
    for (size_t v = 0; v < sum.size(); ++v) sum[v] += weight * state.s[r * sum.size() + v];
  }
  return sum;
}

void Store(const View& to, int64_t row, const std::vector<double>& values, bool add) {
  if (to.data() == nullptr) return;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    SetElement(to, row, column, values[i] + (add ? ElementAt(to, row, column) : 0));
  }
}

// Both return the gradient of a number added to all exponents of the row.
double StoreQuery(const LinearHead& head, const HeadGradients& gradients, int64_t index,
                  const PrefixState& state) {
  if (!Adjoint::Exists(gradients, index)) {
    Store(gradients.grad_queries, index,
          std::vector<double>(static_cast<size_t>(head.queries.queries.size(1)), 0.0),
          gradients.add_to_queries);
    return 0;
  }
  const Adjoint adjoint(head, gradients, index);
  const RowGradient gradient = ReadGradient(head.features, adjoint.features, adjoint.gradient,
                                            adjoint.delta, head.queries.sqrt_scale, state);
  Store(gradients.grad_queries, index, gradient.x, gradients.add_to_queries);
  return gradient.log_weight;
}

double StoreKey(const LinearHead& head, const HeadGradients& gradients, int64_t index,
                const PrefixState& adjoint) {
  const HeadKeys& keys = head.keys;
  if (!keys.Exists(index)) {
    const auto zeros = [](int64_t count) {
      return std::vector<double>(static_cast<size_t>(count), 0.0);
    };
    Store(gradients.grad_keys, index, zeros(keys.keys.size(1)), gradients.add_to_keys);
    Store(gradients.grad_values, index, zeros(keys.values.size(1)), gradients.add_to_keys);
    return 0;
  }
  const RowFeatures key(head.features, FeatureRole::kKey, keys.keys, index, keys.mean,
                        keys.sqrt_scale);
  const RowGradient gradient =
      ReadGradient(head.features, key, LoadRow(keys.values, index), 1, keys.sqrt_scale, adjoint);
  Store(gradients.grad_keys, index, gradient.x, gradients.add_to_keys);
  Store(gradients.grad_values, index, ReadValue(key, adjoint), gradients.add_to_keys);
  return gradient.log_weight;
}

// Appends a key to the state, as in the forward pass.
void AppendKey(const LinearHead& head, int64_t index, const PrefixState& state) {
  const HeadKeys& keys = head.keys;
  if (!keys.Exists(index)) return;
  state.Forget(keys.LogDecay(index));
  Append(
      RowFeatures(head.features, FeatureRole::kKey, keys.keys, index, keys.mean, keys.sqrt_scale),
      LoadRow(keys.values, index), 1, state);
}

void AppendQuery(const LinearHead& head, const HeadGradients& gradients, int64_t index,
                 const PrefixState& adjoint) {
  if (!Adjoint::Exists(gradients, index)) return;
  const Adjoint row(head, gradients, index);
  Append(row.features, row.gradient, row.delta, adjoint);
}

// Queries read the keys that they see, and keys the queries that see them, each anew.
void WindowGradients(const AttentionProblem& problem, const LinearHead& head,
                     const HeadGradients& rows) {
  const int64_t width = head.features.width;
  for (int64_t row = 0; row < problem.query_length; ++row) {
    const StateTensors seen(1, width, problem.value_dim);
    for (int64_t key = 0; key < problem.key_length; ++key) {
      if (problem.Sees(row, key)) AppendKey(head, key, seen.views().At(0));
    }
    StoreQuery(head, rows, row, seen.views().At(0));
  }
  for (int64_t key = 0; key < problem.key_length; ++key) {
    const StateTensors seeing(1, width, problem.value_dim);
    for (int64_t row = 0; row < problem.query_length; ++row) {
      if (problem.Sees(row, key)) AppendQuery(head, rows, row, seeing.views().At(0));
    }
    StoreKey(head, rows, key, seeing.views().At(0));
  }
}

}  // namespace

void LinearAttentionBackward(const LinearGradients& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const Turns turns(problem);
  ParallelFor(context, turns.groups, [&](int64_t index) {
    for (int64_t turn = 0; turn < turns.count; ++turn) {
      const LinearHead head = HeadOf(problem, a.heads, turns.Group(turn, index), context);
      const HeadGradients rows = turns.Rows(a.call, turn, index);
      if (problem.window >= 0) {
        WindowGradients(problem, head, rows);
        continue;
      }
      const StateTensors states(2, a.heads.features.width(), problem.value_dim);
      const PrefixState keys = states.views().At(0), adjoint = states.views().At(1);
      // With G_t = ℓ_0 + … + ℓ_t, query t counts e^{G_t} and key t e^{−G_t} times; dℓ_s = Σ_{t≥s}
      // dG_t.
      std::vector<double> grad_sums(static_cast<size_t>(problem.key_length), 0.0);
      for (int64_t key = 0; key < problem.key_length; ++key) {
        AppendKey(head, key, keys);
        if (problem.causal) grad_sums[static_cast<size_t>(key)] = StoreQuery(head, rows, key, keys);
      }
      for (int64_t row = 0; row < problem.query_length && !problem.causal; ++row) {
        StoreQuery(head, rows, row, keys);
        AppendQuery(head, rows, row, adjoint);
      }
      double grad_decay = 0;
      for (int64_t row = problem.query_length - 1; row >= 0 && problem.causal; --row) {
        AppendQuery(head, rows, row, adjoint);
        grad_decay += grad_sums[static_cast<size_t>(row)] - StoreKey(head, rows, row, adjoint);
        if (!rows.grad_log_decay.empty())
          SetElement(rows.grad_log_decay, 0, row, head.keys.Exists(row) ? grad_decay : 0);
        adjoint.Forget(head.keys.LogDecay(row));
      }
      for (int64_t key = 0; key < problem.key_length && !problem.causal; ++key)
        StoreKey(head, rows, key, adjoint);
    }
  });
  if (!a.heads.key_mean.empty()) cpu::CentringGradients(a, context);
}

}  // namespace favor::kernels::reference
