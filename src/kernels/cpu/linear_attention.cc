// Linear attention of a whole call: every head's keys become prefix states, queries read them.
// Heads and blocks of rows are tasks; states of blocks merge in order.
#include "kernels/linear_attention.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/linear_window.h"
#include "kernels/cpu/simd/linear_rows.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kQueryRows = 1536;  // rows of a read task: a multiple of the kernel's panel

// Groups begin … end − 1 of a call without states of its own.
class Groups {
 public:
  Groups(const LinearArguments& arguments, const Blocks& blocks, int64_t begin, int64_t end,
         const Context& context)
      : arguments_(arguments),
        problem_(arguments.call.problem),
        context_(context),
        blocks_(blocks),
        first_(begin),
        count_(end - begin),
        states_(count_ * blocks.count, arguments.heads.features.width(), problem_.value_dim) {}

  RowCounts Run() const {
    // A causal pass needs the states of all blocks but the last.
    const int64_t needed = problem_.causal ? blocks_.count - 1 : blocks_.count;
    RowCounts counts = SumPieces(context_, count_ * needed, [&](int64_t piece) {
      const int64_t group = piece / needed, block = piece % needed;
      return AppendKeys(Head(group), blocks_.Rows(block, problem_.key_length),
                        states_.views().At(group * blocks_.count + block));
    });
    return counts += problem_.causal ? RunCausal() : RunBidirectional();
  }

 private:
  RowCounts RunBidirectional() const {
    ParallelFor(context_, count_, [&](int64_t group) {
      const int64_t first = group * blocks_.count;
      for (int64_t block = 1; block < blocks_.count; ++block)
        MergeInto(states_.views().At(first + block), states_.views().At(first));
      if (arguments_.states.empty()) return;
      MergeInto(states_.views().At(first), arguments_.states.At(first_ + group));
    });
    const int64_t reads = (problem_.query_length + kQueryRows - 1) / kQueryRows;
    return SumPieces(context_, count_ * reads, [&](int64_t piece) {
      const int64_t group = piece / reads, begin = piece % reads * kQueryRows;
      return ReadQueries(Head(group), {begin, std::min(problem_.query_length, begin + kQueryRows)},
                         states_.views().At(group * blocks_.count),
                         OutputOf(arguments_, first_ + group));
    });
  }

  RowCounts RunCausal() const {
    ParallelFor(context_, count_, [&](int64_t group) {
      ScanStates(states_.views().Range(group * blocks_.count, blocks_.count), Side::kBefore);
    });
    return SumPieces(context_, count_ * blocks_.count, [&](int64_t piece) {
      const int64_t group = piece / blocks_.count, block = piece % blocks_.count;
      return Causal(Head(group), blocks_.Rows(block, problem_.key_length),
                    states_.views().At(piece), OutputOf(arguments_, first_ + group));
    });
  }

  // `group` counts from first_.
  LinearHead Head(int64_t group) const {
    return HeadOf(problem_, arguments_.heads, first_ + group, context_);
  }

  const LinearArguments& arguments_;
  const AttentionProblem& problem_;
  const Context& context_;
  const Blocks& blocks_;
  int64_t first_, count_;
  StateTensors states_;  // [groups, blocks]
};

bool IsRefused(const LinearArguments& a) { return a.call.tally->unusable > 0; }

// Runs one task for each group, which updates the group's state.
template <class Work>
void MoveStates(const LinearArguments& a, const Context& context, const Work& work) {
  if (IsRefused(a)) return;
  SumPieces(context, a.call.problem.Groups(), [&](int64_t group) {
    return work(HeadOf(a.call.problem, a.heads, group, context), a.states.At(group), group);
  }).AddTo(*a.call.tally);
}

}  // namespace

void LinearAttention(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  if (problem.window >= 0) return LinearWindow(a, context);
  if (problem.causal && !a.states.empty()) {
    MoveStates(a, context, [&](const LinearHead& head, const PrefixState& state, int64_t group) {
      return Causal(head, {0, problem.query_length}, state, OutputOf(a, group));
    });
    return;
  }
  const int64_t state_bytes = PrefixState::Bytes(a.heads.features.width(), problem.value_dim);
  const Blocks blocks(problem.key_length, problem.causal, problem.Groups(), state_bytes,
                      /*most_rows=*/problem.key_length);
  const int64_t at_a_time =
      std::max<int64_t>(1, Blocks::kStateBytes / (blocks.count * state_bytes));
  for (int64_t first = 0; first < problem.Groups(); first += at_a_time) {
    Groups(a, blocks, first, std::min(problem.Groups(), first + at_a_time), context)
        .Run()
        .AddTo(*a.call.tally);
  }
}

void LinearAppend(const LinearArguments& a, const Context& context) {
  MoveStates(a, context, [&](const LinearHead& head, const PrefixState& state, int64_t) {
    return AppendKeys(head, {0, a.call.problem.key_length}, state);
  });
}

void LinearRead(const LinearArguments& a, const Context& context) {
  const AttentionProblem& problem = a.call.problem;
  constexpr int64_t kRows = 256;
  const int64_t tasks = (problem.query_length + kRows - 1) / kRows;
  SumPieces(context, problem.Groups() * tasks, [&](int64_t piece) {
    const int64_t group = piece / tasks, begin = piece % tasks * kRows;
    return ReadQueries(HeadOf(problem, a.heads, group, context),
                       {begin, std::min(problem.query_length, begin + kRows)}, a.states.At(group),
                       OutputOf(a, group));
  }).AddTo(*a.call.tally);
}

}  // namespace favor::kernels::cpu
