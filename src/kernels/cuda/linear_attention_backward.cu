// Gradients of linear attention of a whole call on a GPU. Query heads that share keys take turns,
// so that sums have an order.
#include "kernels/linear_attention_backward.h"

#include <optional>

#include "kernels/cuda/fused/call.h"
#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda {

using general::Call;
using general::Scan;
using general::Side;

namespace {

// Segments that the fused kernels leave to the general ones, on each side.
struct Lost {
  Lost(const Context& context, int64_t of_queries, int64_t of_keys)
      : queries(context, of_queries), keys(context, of_keys) {}

  fused::Flags queries, keys;
};

// Whether the forward call left the states of the keys before these segments.
bool HasKept(const LinearGradients& a, const Cut& cut) {
  return a.kept != nullptr && a.kept->cut.segments == cut.segments && a.kept->cut.rows == cut.rows;
}
SegmentStates KeptOf(const KeptStates& kept, const Call& call) {
  // Kernels that read states and those that write them take the same pointers.
  auto* memory = const_cast<float*>(kept.memory.Data<float>());
  return StatesIn(memory, call.groups * kept.cut.segments, call.map.width, call.value_dim);
}

// A state of each side for every segment: of the keys before it and of the queries behind it.
void Causal(const LinearGradients& a, const Call& call, const Context& context) {
  const bool forgets = !a.call.grad_log_decay.empty();
  const bool is_fused = fused::Takes(call, a.heads.features, context);
  const int64_t length = call.query_length, width = call.map.width;
  const Cut cut = CutRows(call.groups, length, width, call.value_dim, /*sides=*/2,
                          call.log_decay.data == nullptr ? INT64_MAX : kMostDecayedRows,
                          is_fused ? kMostFusedSegments : kMostSegments);
  const bool has_kept = is_fused && HasKept(a, cut);
  const SegmentStateScratch query_memory(context, call.groups, cut, width, call.value_dim);
  const SegmentStates queries = query_memory.states();
  std::optional<SegmentStateScratch> key_memory;
  SegmentStates keys =
      has_kept ? KeptOf(*a.kept, call)
               : key_memory.emplace(context, call.groups, cut, width, call.value_dim).states();
  // Gradients of numbers added to all exponents of a row.
  const DeviceScratch<float> of_rows(context, forgets ? 2 * call.groups * length : 1);
  float* of_queries = forgets ? of_rows.data() : nullptr;
  float* of_keys = forgets ? of_rows.data() + call.groups * length : nullptr;
  std::optional<Lost> lost;
  std::optional<fused::Decay> decay;
  fused::Call of_keys_fused, of_queries_fused;
  if (is_fused) {
    const int64_t count = call.groups * cut.segments;
    lost.emplace(context, count, count);
    of_queries_fused = fused::CallOf(call, cut, /*state_stride=*/0, keys, lost->queries.data());
    of_keys_fused = fused::CallOf(call, cut, /*state_stride=*/0, queries, lost->keys.data());
    if (call.log_decay.data != nullptr) {
      const float* sums = decay.emplace(context, call, cut, queries).data();
      of_queries_fused.decay = of_keys_fused.decay = sums;
      keys.log_decay = queries.log_decay;
    }
    if (forgets) {
      // Weights of normalised rows add up to 1: a number added to all exponents changes nothing.
      of_keys_fused.log_weights = of_keys;
      Check(
          "linear attention",
          cudaMemsetAsync(of_queries, 0, static_cast<size_t>(call.groups * length) * sizeof(float),
                          StreamOf(context)));
    }
    // With one segment the scans leave empty states, whatever they read.
    if (cut.segments > 1) {
      if (!has_kept) fused::KeyStates(of_queries_fused, StreamOf(context));
      fused::AdjointStates(of_keys_fused, StreamOf(context));
    }
  } else {
    general::SegmentStatesOf(call, Side::kKeys, /*causal=*/true, cut, keys, context);
    general::SegmentStatesOf(call, Side::kQueries, /*causal=*/true, cut, queries, context);
  }
  if (!has_kept) general::ScanStates(call, Scan::kBefore, cut.segments, keys, {}, {}, context);
  general::ScanStates(call, Scan::kBehind, cut.segments, queries, {}, {}, context);
  if (is_fused) {
    fused::CausalQueryGradients(of_queries_fused, StreamOf(context));
    fused::CausalKeyGradients(of_keys_fused, StreamOf(context));
  }
  general::Gradients(call, Side::kQueries, /*causal=*/true, cut, /*state_stride=*/0, keys,
                     of_queries, is_fused ? lost->queries.data() : nullptr, context);
  general::Gradients(call, Side::kKeys, /*causal=*/true, cut, /*state_stride=*/0, queries, of_keys,
                     is_fused ? lost->keys.data() : nullptr, context);
  if (forgets) general::DecayGradients(call, cut, keys, queries, of_queries, of_keys, context);
}

// Queries read the states that the forward call left; keys read the state of all queries.
void Bidirectional(const LinearGradients& a, const Call& call, const Context& context) {
  const int64_t width = call.map.width;
  const bool is_fused = fused::Takes(call, a.heads.features, context);
  const int64_t most = is_fused ? kMostFusedSegments : kMostSegments;
  const auto cut = [&](int64_t length) {
    return CutRows(call.groups, length, width, call.value_dim, /*sides=*/1,
                   /*most_rows=*/INT64_MAX, most);
  };
  const Cut one{.segments = 1, .rows = kSegmentStep};
  const Cut query_cut = cut(call.query_length), key_cut = cut(call.key_length);
  const SegmentStateScratch keys(context, call.groups, one, width, call.value_dim),
      queries(context, call.groups, query_cut, width, call.value_dim);
  std::optional<Lost> lost;
  if (is_fused)
    lost.emplace(context, call.groups * query_cut.segments, call.groups * key_cut.segments);
  general::ScanStates(call, Scan::kTotal, /*segments=*/0, keys.states(),
                      general::PointersOf(a.states), {}, context);
  if (is_fused) {
    const fused::Call fast =
        fused::CallOf(call, query_cut, /*state_stride=*/1, keys.states(), lost->queries.data());
    fused::QueryGradients(fast, StreamOf(context));
    fused::AdjointStates(fused::CallOf(call, query_cut, /*state_stride=*/0, queries.states(),
                                       /*flags=*/nullptr),
                         StreamOf(context));
  } else {
    general::SegmentStatesOf(call, Side::kQueries, /*causal=*/false, query_cut, queries.states(),
                             context);
  }
  general::Gradients(call, Side::kQueries, /*causal=*/false, query_cut, /*state_stride=*/1,
                     keys.states(), /*log_weights=*/nullptr,
                     is_fused ? lost->queries.data() : nullptr, context);
  general::ScanStates(call, Scan::kTotal, query_cut.segments, queries.states(), {}, {}, context);
  if (is_fused) {
    const fused::Call fast =
        fused::CallOf(call, key_cut, query_cut.segments, queries.states(), lost->keys.data());
    fused::KeyGradients(fast, StreamOf(context));
  }
  general::Gradients(call, Side::kKeys, /*causal=*/false, key_cut, query_cut.segments,
                     queries.states(), /*log_weights=*/nullptr,
                     is_fused ? lost->keys.data() : nullptr, context);
}

}  // namespace

void LinearAttentionBackward(const LinearGradients& a, const Context& context) {
  general::Refuse(a.call.problem, a.heads.features);
  const int64_t turns = a.call.problem.heads / a.call.problem.kv_heads;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const Call call = general::CallOf(a, turn, context);
    if (a.call.problem.causal) {
      Causal(a, call, context);
    } else {
      Bidirectional(a, call, context);
    }
  }
  if (!a.heads.key_mean.empty()) general::CentringGradients(a, context);
}

}  // namespace favor::kernels::cuda
