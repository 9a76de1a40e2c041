#include "attention/kinds.h"
#include "core/parallel.h"
#include "kernels/exact_attention.h"

namespace favor::attention {
namespace {

constexpr int64_t kQueryRows = 64;  // rows of a task

}  // namespace

AttentionReport Exact(const Problem& problem, const AttentionOptions& options,
                      const Context& context, View out) {
  const int64_t tasks = (problem.query_length + kQueryRows - 1) / kQueryRows;
  const auto counts = ParallelReduce(
      context, problem.Groups() * tasks, 1, kernels::RowCounts{},
      [&](int64_t piece, int64_t) {
        const int64_t group = piece / tasks, begin = piece % tasks * kQueryRows;
        const int64_t end = std::min(problem.query_length, begin + kQueryRows);
        const kernels::ExactRows rows{.queries = problem.Queries(group),
                                      .keys = problem.Keys(group),
                                      .values = problem.Values(group),
                                      .mask = problem.Mask(group),
                                      .scale = problem.scale,
                                      .causal = problem.causal};
        const kernels::OutputRows to{.output = out.At(problem.Batch(group)).At(problem.Head(group)),
                                     .normalize = options.renormalize};
        return options.reference ? kernels::reference::Exact(rows, begin, end, to)
                                 : kernels::cpu::Exact(rows, begin, end, context, to);
      },
      [](kernels::RowCounts& total, const kernels::RowCounts& part) { total += part; });
  return {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
}

}  // namespace favor::attention
