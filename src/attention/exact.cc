#include "attention/kinds.h"

#include <algorithm>
#include "core/parallel.h"
#include "kernels/exact_attention.h"
#include "kernels/exact_attention_backward.h"

namespace favor::attention {
namespace {

using kernels::RowCounts;

constexpr int64_t kTaskRows = 64;  // the block of the kernels: rows along the lanes

kernels::ExactRows RowsOf(const Problem& problem, int64_t group) {
  return {.queries = problem.Queries(group),
          .keys = problem.Keys(group),
          .values = problem.Values(group),
          .mask = problem.Mask(group),
          .scale = problem.scale,
          .causal = problem.causal};
}

// Sums work(group, begin, end) over blocks of rows of all groups. The last rows of a causal call
// are the longest work: they come first.
template <class Work>
RowCounts ForBlocks(const Context& context, int64_t groups, int64_t length, const Work& work) {
  const int64_t tasks = (length + kTaskRows - 1) / kTaskRows;
  return ParallelReduce(
      context, groups * tasks, 1, RowCounts{},
      [&](int64_t piece, int64_t) {
        const int64_t begin = (tasks - 1 - piece % tasks) * kTaskRows;
        return work(piece / tasks, begin, std::min(length, begin + kTaskRows));
      },
      [](RowCounts& total, const RowCounts& part) { total += part; });
}

}  // namespace

RowCounts Exact(const ForwardCall& call) {
  const Problem& problem = call.problem;
  return ForBlocks(call.context, problem.Groups(), problem.query_length,
                   [&](int64_t group, int64_t begin, int64_t end) {
                     const kernels::ExactRows rows = RowsOf(problem, group);
                     const kernels::OutputRows out = call.Rows(group);
                     return call.options.reference
                                ? kernels::reference::Exact(rows, begin, end, out)
                                : kernels::cpu::Exact(rows, begin, end, call.context, out);
                   });
}

RowCounts ExactBackward(const BackwardCall& call) {
  const Problem& problem = call.problem;
  const bool reference = call.options.reference;
  RowCounts counts;
  for (int64_t turn = 0; turn < call.Turns(); ++turn) {
    counts += ForBlocks(
        call.context, call.GroupsOfTurn(), problem.query_length,
        [&](int64_t index, int64_t begin, int64_t end) {
          const kernels::ExactRows rows = RowsOf(problem, call.Group(turn, index));
          const kernels::GradientRows gradients = call.Rows(turn, index);
          return reference
                     ? kernels::reference::ExactQueryGradients(rows, gradients, begin, end)
                     : kernels::cpu::ExactQueryGradients(rows, gradients, begin, end, call.context);
        });
    counts += ForBlocks(
        call.context, call.GroupsOfTurn(), problem.key_length,
        [&](int64_t index, int64_t begin, int64_t end) {
          const kernels::ExactRows rows = RowsOf(problem, call.Group(turn, index));
          const kernels::GradientRows gradients = call.Rows(turn, index);
          return reference
                     ? kernels::reference::ExactKeyGradients(rows, gradients, begin, end)
                     : kernels::cpu::ExactKeyGradients(rows, gradients, begin, end, call.context);
        });
  }
  return counts;
}

}  // namespace favor::attention
