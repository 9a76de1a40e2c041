// Linear attention over batches and heads: every head's keys become prefix states, queries read
// them.
#include <algorithm>
#include <utility>
#include <vector>

#include "attention/blocks.h"
#include "attention/kinds.h"
#include "attention/linear_heads.h"
#include "attention/record.h"
#include "core/parallel.h"
#include "kernels/linear_kernels.h"

namespace favor::attention {
namespace {

using kernels::PrefixState;
using kernels::RowCounts;

constexpr int64_t kQueryRows = 1536;  // rows of a read task: a multiple of the kernel's panel

class LinearCall {
 public:
  LinearCall(const ForwardCall& call, const kernels::LinearKernels& kernels, const HeadMaker& maker)
      : call_(call),
        problem_(call.problem),
        context_(call.context),
        kernels_(kernels),
        maker_(maker),
        blocks_(problem_.key_length, problem_.causal, problem_.Groups(), maker.StateBytes()) {}

  RowCounts Run() {
    const int64_t at_a_time = std::max<int64_t>(
        1, Blocks::kStateBytes / (blocks_.count * maker_.StateBytes() + maker_.HeadBytes()));
    RowCounts counts;
    for (int64_t first = 0; first < problem_.Groups(); first += at_a_time) {
      counts += RunGroups(first, std::min(problem_.Groups(), first + at_a_time));
    }
    return counts;
  }

 private:
  RowCounts RunGroups(int64_t first, int64_t last) {
    first_ = first;
    heads_.assign(static_cast<size_t>(last - first), {});
    ParallelFor(context_, last - first,
                [&](int64_t i) { heads_[static_cast<size_t>(i)] = maker_.Constants(first + i); });
    if (call_.record != nullptr) {
      for (const HeadConstants& head : heads_) call_.record->heads.push_back(head);
    }
    states_.assign(static_cast<size_t>((last - first) * blocks_.count), {});
    // A causal pass needs the states of all blocks but the last.
    const int64_t needed = problem_.causal ? blocks_.count - 1 : blocks_.count;
    ParallelFor(context_, static_cast<int64_t>(states_.size()), [&](int64_t i) {
      states_[static_cast<size_t>(i)] = PrefixState(maker_.width(), problem_.value_dim);
    });
    RowCounts counts = Sum((last - first) * needed, [&](int64_t piece) {
      const int64_t group = piece / needed, block = piece % needed;
      return kernels_.append_keys(Head(group), blocks_.Rows(block, problem_.key_length),
                                  states_[static_cast<size_t>(group * blocks_.count + block)]);
    });
    return counts += problem_.causal ? Causal() : Bidirectional();
  }

  RowCounts Bidirectional() {
    const auto groups = static_cast<int64_t>(heads_.size());
    ParallelFor(context_, groups, [&](int64_t group) {
      PrefixState* first = states_.data() + group * blocks_.count;
      for (int64_t block = 1; block < blocks_.count; ++block)
        kernels::MergeInto(first[block], first[0]);
    });
    const int64_t reads = (problem_.query_length + kQueryRows - 1) / kQueryRows;
    const RowCounts counts = Sum(groups * reads, [&](int64_t piece) {
      const int64_t group = piece / reads, begin = piece % reads * kQueryRows;
      return kernels_.read_queries(
          Head(group), {begin, std::min(problem_.query_length, begin + kQueryRows)},
          states_[static_cast<size_t>(group * blocks_.count)], call_.Rows(first_ + group));
    });
    for (int64_t group = 0; call_.record != nullptr && group < groups; ++group) {
      call_.record->states.push_back(
          std::move(states_[static_cast<size_t>(group * blocks_.count)]));
    }
    return counts;
  }

  RowCounts Causal() {
    const auto groups = static_cast<int64_t>(heads_.size());
    ParallelFor(context_, groups, [&](int64_t group) {
      ScanStates({states_.data() + group * blocks_.count, static_cast<size_t>(blocks_.count)},
                 Side::kBefore);
    });
    return Sum(groups * blocks_.count, [&](int64_t piece) {
      const int64_t group = piece / blocks_.count, block = piece % blocks_.count;
      return kernels_.causal(Head(group), blocks_.Rows(block, problem_.key_length),
                             states_[static_cast<size_t>(piece)], call_.Rows(first_ + group));
    });
  }

  // `group` counts from the first in work.
  kernels::LinearHead Head(int64_t group) const {
    return MakeLinearHead(problem_, first_ + group, heads_[static_cast<size_t>(group)], context_);
  }

  template <class Work>
  RowCounts Sum(int64_t pieces, const Work& work) {
    return ParallelReduce(
        context_, pieces, 1, RowCounts{}, [&](int64_t piece, int64_t) { return work(piece); },
        [](RowCounts& total, const RowCounts& part) { total += part; });
  }

  const ForwardCall& call_;
  const Problem& problem_;
  const Context& context_;
  const kernels::LinearKernels& kernels_;
  const HeadMaker& maker_;
  Blocks blocks_;
  int64_t first_ = 0;  // of the groups in work
  std::vector<HeadConstants> heads_;
  std::vector<PrefixState> states_;  // [groups, blocks]
};

}  // namespace

RowCounts Linear(const ForwardCall& call) {
  if (call.options.compat != Compat::kNone) return Compatible(call);
  const HeadMaker maker(call.problem, call.options, call.context);
  const bool reference = call.options.reference;
  return LinearCall(call, reference ? kernels::reference::kLinear : kernels::cpu::kLinear, maker)
      .Run();
}

}  // namespace favor::attention
