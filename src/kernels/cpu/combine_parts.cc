#include "kernels/combine_parts.h"

#include <array>
#include <vector>

#include "kernels/cpu/blocks.h"
#include "kernels/sum_rows.h"

namespace favor::kernels::cpu {
namespace {

SumRow RowOf(const SumParts& parts, int64_t group, int64_t row, int64_t value_dim) {
  return {parts.log_scale.At(group).Data<double>()[row],
          parts.denominator.At(group).Data<double>()[row],
          parts.numerator.At(group).Data<double>() + row * value_dim};
}

}  // namespace

void CombineParts(const CombineArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  SumPieces(context, problem.Groups(), [&](int64_t group) {
    HeadOutput out = OutputOf(a.call, group);
    out.least_denominator = a.least_denominator;
    std::vector<double> total(static_cast<size_t>(problem.value_dim));
    RowCounts counts;
    for (int64_t row = 0; row < problem.query_length; ++row) {
      const std::array<SumRow, 2> parts = {RowOf(a.first, group, row, problem.value_dim),
                                           RowOf(a.second, group, row, problem.value_dim)};
      counts += StoreSum(out, row, parts, total);
    }
    return counts;
  }).AddTo(*a.call.tally);
}

}  // namespace favor::kernels::cpu
