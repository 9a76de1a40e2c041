#include "kernels/exact_attention.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd/exact_rows.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kTaskRows = 64;  // the block of the kernels: rows along the lanes

// Sums work(group, range) over blocks of rows of all groups. The last rows of a causal call are the
// longest work: they come first.
template <class Work>
RowCounts ForBlocks(const Context& context, int64_t groups, int64_t length, const Work& work) {
  const int64_t tasks = (length + kTaskRows - 1) / kTaskRows;
  return SumPieces(context, groups * tasks, [&](int64_t piece) {
    const int64_t begin = (tasks - 1 - piece % tasks) * kTaskRows;
    return work(piece / tasks, RowRange{begin, std::min(length, begin + kTaskRows)});
  });
}

}  // namespace

void ExactAttention(const AttentionArguments& a, const Context& context) {
  ForBlocks(context, a.problem.Groups(), a.problem.query_length,
            [&](int64_t group, RowRange range) {
              return Exact(HeadOf(a.problem, group), range, context, OutputOf(a, group));
            })
      .AddTo(*a.tally);
}

void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  const Turns turns(problem);
  RowCounts counts;
  for (int64_t turn = 0; turn < turns.count; ++turn) {
    counts +=
        ForBlocks(context, turns.groups, problem.query_length, [&](int64_t index, RowRange range) {
          return ExactQueryGradients(HeadOf(problem, turns.Group(turn, index)),
                                     turns.Rows(a, turn, index), range, context);
        });
    counts +=
        ForBlocks(context, turns.groups, problem.key_length, [&](int64_t index, RowRange range) {
          return ExactKeyGradients(HeadOf(problem, turns.Group(turn, index)),
                                   turns.Rows(a, turn, index), range, context);
        });
  }
  counts.AddTo(*a.tally);
}

}  // namespace favor::kernels::cpu
