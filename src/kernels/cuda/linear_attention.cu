// Linear attention of a whole call on a GPU: states of segments, their scan or sum, and the rows
// that read them. Nothing waits, and what is launched depends on shapes alone.
#include "kernels/linear_attention.h"

#include <optional>

#include "kernels/cuda/attention_checks.cuh"
#include "kernels/cuda/fused/call.h"
#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda {

using general::Call;
using general::GroupStates;
using general::Scan;
using general::Side;

namespace {

void CheckInputs(const LinearArguments& a, const Context& context) {
  if (!a.call.checks_inputs) return;
  CountUnusable({.problem = a.call.problem, .key_mean = a.heads.key_mean, .tally = a.call.tally},
                context);
}

// After the fused kernels, which flag segments with numbers that may be unusable.
void CheckInputsIfFlagged(const LinearArguments& a, const fused::Flags& flags,
                          const Context& context) {
  if (!a.call.checks_inputs) return;
  CountUnusableIf({.problem = a.call.problem, .key_mean = {}, .tally = a.call.tally}, flags.data(),
                  flags.count(), context);
}

// Memory for states that gradients will read.
SegmentStates Keep(KeptStates& kept, const Call& call, const Cut& cut, const Context& context) {
  const int64_t count = call.groups * cut.segments, width = call.map.width;
  const Shape floats{StateFloats(count, width, call.value_dim)};
  if (kept.memory.empty() || kept.memory.shape() != floats ||
      kept.memory.device() != context.device())
    kept.memory = Tensor(floats, DataType::kF32, context.device());
  kept.cut = cut;
  return StatesIn(kept.memory.Data<float>(), count, width, call.value_dim);
}

// Causal calls with states and few rows go token by token through the states themselves.
void Causal(const LinearArguments& a, const Call& call, const Context& context) {
  const GroupStates own = general::PointersOf(a.states);
  if (!a.states.empty() && call.key_length <= general::kFewRows)
    return general::CausalFew(a, call, own, context);
  // States of the caller must not change if a number is unusable: the general kernels count those
  // before states move.
  const bool is_fused = a.states.empty() && fused::Takes(call, a.heads.features, context);
  const int64_t decayed = a.call.problem.log_decay.empty() ? INT64_MAX : kMostDecayedRows;
  const Cut cut = CutRows(call.groups, call.key_length, call.map.width, call.value_dim,
                          /*sides=*/1, decayed, is_fused ? kMostFusedSegments : kMostSegments);
  // Gradients of heads that share keys take turns, with other segments.
  const bool keeps = a.kept != nullptr && is_fused && call.sharing == 1 && cut.segments > 1;
  std::optional<SegmentStateScratch> scratch;
  if (a.kept != nullptr && !keeps) *a.kept = {};
  const SegmentStates states =
      keeps ? Keep(*a.kept, call, cut, context)
            : scratch.emplace(context, call.groups, cut, call.map.width, call.value_dim).states();
  std::optional<fused::Flags> flags;
  std::optional<fused::Decay> decay;
  fused::Call fast;
  if (is_fused) {
    flags.emplace(context, call.groups * cut.segments);
    fast = fused::CallOf(call, cut, /*state_stride=*/0, states, flags->data());
    if (call.log_decay.data != nullptr)
      fast.decay = decay.emplace(context, call, cut, states).data();
    // Before the only segment there is nothing: the scan reads no state and leaves an empty one.
    if (cut.segments > 1) fused::KeyStates(fast, StreamOf(context));
  } else {
    CheckInputs(a, context);
    general::SegmentStatesOf(call, Side::kKeys, /*causal=*/true, cut, states, context);
  }
  general::ScanStates(call, Scan::kBefore, cut.segments, states, own, own, context);
  if (!a.states.empty()) general::CountTokens(call, own.tokens, context);
  if (is_fused) {
    fused::CausalOutput(fast, StreamOf(context));
    CheckInputsIfFlagged(a, *flags, context);
  }
  general::Output(call, /*causal=*/true, cut, /*state_stride=*/0, states,
                  is_fused ? flags->data() : nullptr, context);
}

void Bidirectional(const LinearArguments& a, const Call& call, const Context& context) {
  const GroupStates own = general::PointersOf(a.states);
  const bool is_fused = fused::Takes(call, a.heads.features, context);
  const int64_t most = is_fused ? kMostFusedSegments : kMostSegments;
  const auto cut = [&](int64_t length) {
    return CutRows(call.groups, length, call.map.width, call.value_dim, /*sides=*/1,
                   /*most_rows=*/INT64_MAX, most);
  };
  const Cut keys = cut(call.key_length), queries = cut(call.query_length);
  const SegmentStateScratch memory(context, call.groups, keys, call.map.width, call.value_dim);
  std::optional<fused::Flags> flags;
  if (is_fused) {
    flags.emplace(context, call.groups * queries.segments);
    fused::KeyStates(fused::CallOf(call, keys, /*state_stride=*/0, memory.states(), nullptr),
                     StreamOf(context));
  } else {
    CheckInputs(a, context);
    general::SegmentStatesOf(call, Side::kKeys, /*causal=*/false, keys, memory.states(), context);
  }
  general::ScanStates(call, Scan::kTotal, keys.segments, memory.states(), own, own, context);
  if (!a.states.empty()) general::CountTokens(call, own.tokens, context);
  if (is_fused) {
    fused::Output(fused::CallOf(call, queries, keys.segments, memory.states(), flags->data()),
                  StreamOf(context));
    CheckInputsIfFlagged(a, *flags, context);
  }
  general::Output(call, /*causal=*/false, queries, keys.segments, memory.states(),
                  is_fused ? flags->data() : nullptr, context);
}

}  // namespace

void LinearAttention(const LinearArguments& a, const Context& context) {
  general::Refuse(a.call.problem, a.heads.features);
  const Call call = general::CallOf(a, context);
  if (a.call.problem.causal) {
    Causal(a, call, context);
  } else {
    Bidirectional(a, call, context);
  }
}

void LinearAppend(const LinearArguments& a, const Context& context) {
  general::Refuse(a.call.problem, a.heads.features);
  const Call call = general::CallOf(a, context);
  const GroupStates own = general::PointersOf(a.states);
  if (call.key_length <= general::kFewRows) return general::AppendFew(call, own, context);
  const Cut cut = CutRows(call.groups, call.key_length, call.map.width, call.value_dim);
  const SegmentStateScratch memory(context, call.groups, cut, call.map.width, call.value_dim);
  general::SegmentStatesOf(call, Side::kKeys, /*causal=*/true, cut, memory.states(), context);
  general::ScanStates(call, Scan::kTotal, cut.segments, memory.states(), own, own, context);
  general::CountTokens(call, own.tokens, context);
}

void LinearRead(const LinearArguments& a, const Context& context) {
  general::Refuse(a.call.problem, a.heads.features);
  const Call call = general::CallOf(a, context);
  const GroupStates own = general::PointersOf(a.states);
  if (call.query_length <= general::kFewRows) return general::ReadFew(call, own, context);
  const Cut one{.segments = 1, .rows = kSegmentStep};
  const SegmentStateScratch memory(context, call.groups, one, call.map.width, call.value_dim);
  general::ScanStates(call, Scan::kTotal, /*segments=*/0, memory.states(), own, {}, context);
  const Cut cut = CutRows(call.groups, call.query_length, call.map.width, call.value_dim);
  general::Output(call, /*causal=*/false, cut, /*state_stride=*/1, memory.states(),
                  /*only=*/nullptr, context);
}

}  // namespace favor::kernels::cuda
