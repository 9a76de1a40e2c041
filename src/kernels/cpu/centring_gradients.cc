#include "kernels/centring_gradients.h"

#include <vector>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/head_rows.h"

namespace favor::kernels::cpu {
namespace {

void AddToElement(const View& to, int64_t row, int64_t column, double value) {
  SetElement(to, row, column, ElementAt(to, row, column) + value);
}

}  // namespace

void CentringGradients(const LinearGradients& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  const Turns turns(problem);
  const auto d = static_cast<size_t>(problem.dim);
  ParallelFor(context, turns.groups, [&](int64_t index) {
    std::vector<double> grad_mean(d, 0.0);
    for (int64_t turn = 0; !problem.normalize && turn < turns.count; ++turn) {
      const int64_t group = turns.Group(turn, index);
      const double* mean = a.heads.KeyMean(problem, group);
      const HeadGradients rows = turns.Rows(a.call, turn, index);
      const ConstView queries = problem.OfQueries(problem.q, group),
                      out = problem.OfQueries(a.call.out, group);
      for (int64_t row = 0; row < problem.query_length; ++row) {
        double dot = 0;
        for (int64_t v = 0; v < problem.value_dim; ++v)
          dot += ElementAt(out, row, v) * ElementAt(rows.grad_output, row, v);
        for (size_t i = 0; i < d; ++i) {
          const auto column = static_cast<int64_t>(i);
          AddToElement(rows.grad_queries, row, column, problem.scale * dot * mean[i]);
          grad_mean[i] += problem.scale * dot * ElementAt(queries, row, column);
        }
      }
    }
    if (!a.own_mean) return;
    const View grad_keys = turns.Rows(a.call, 0, index).grad_keys;
    const float* mask = problem.Mask(turns.Group(0, index));
    const auto exists = [&](int64_t row) { return mask == nullptr || mask[row] != 0; };
    double count = 0;
    for (int64_t row = 0; row < problem.key_length; ++row) {
      if (!exists(row)) continue;
      count += 1;
      for (size_t i = 0; i < d; ++i)
        grad_mean[i] -= ElementAt(grad_keys, row, static_cast<int64_t>(i));
    }
    for (int64_t row = 0; row < problem.key_length; ++row) {
      for (size_t i = 0; exists(row) && i < d; ++i)
        AddToElement(grad_keys, row, static_cast<int64_t>(i), grad_mean[i] / count);
    }
  });
}

}  // namespace favor::kernels::cpu
