#include "attention/window.h"

#include <algorithm>

#include "core/error_text.h"

namespace favor::attention {

int64_t WindowOf(const Kind& kind, const AttentionOptions& options) {
  return KindOptionValues(kind, options.kind_options)[0];
}

void SetWindow(int64_t window, Call& call) {
  kernels::AttentionProblem& problem = call.problem;
  if (problem.query_length != problem.key_length) {
    Throw(ErrorCode::kInvalidData, "attend",
          "given {} queries and {} keys, expected the same number for a window",
          problem.query_length, problem.key_length);
  }
  problem.window = window;
}

double PairsInWindow(int64_t window, int64_t length, bool causal) {
  // On one side of the diagonal: a band of `reach` keys, less the corner that is cut off.
  const auto l = static_cast<double>(length), reach = std::min(static_cast<double>(window), l - 1),
             side = reach * l - reach * (reach + 1) / 2;
  return l + side * (causal ? 1 : 2);
}

}  // namespace favor::attention
