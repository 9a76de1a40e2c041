// The two ways to compute linear attention, behind the same calls, and the cut of a sequence into
// blocks.
#ifndef FAVOR_ATTENTION_LINEAR_KERNELS_H_
#define FAVOR_ATTENTION_LINEAR_KERNELS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention/linear_heads.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"
#include "kernels/prefix_state.h"

namespace favor::attention {

using kernels::GradientRows;
using kernels::OutputRows;
using kernels::PrefixState;
using kernels::RowCounts;

struct FastKernels {
  const Context& context;
  int64_t chunk;

  RowCounts Append(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    return kernels::cpu::AppendKeys(head.features(), head.keys, begin, end, context, state);
  }
  RowCounts Read(const LinearHead& head, int64_t begin, int64_t end, const PrefixState& state,
                 const OutputRows& out) const {
    return kernels::cpu::ReadQueries(head.features(), head.queries, begin, end, state, context,
                                     out);
  }
  RowCounts Causal(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state,
                   const OutputRows& out) const {
    return kernels::cpu::Causal(head.features(), head.queries, head.keys, begin, end, chunk,
                                context, state, out);
  }
  RowCounts QueryGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                           int64_t end, const PrefixState& state, PrefixState& adjoint) const {
    return kernels::cpu::QueryGradients(head.features(), head.queries, gradients, begin, end, state,
                                        context, adjoint);
  }
  RowCounts KeyGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                         int64_t end, const PrefixState& adjoint) const {
    return kernels::cpu::KeyGradients(head.features(), head.keys, gradients, begin, end, adjoint,
                                      context);
  }
  RowCounts AppendQueries(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                          int64_t end, PrefixState& adjoint) const {
    return kernels::cpu::AppendQueries(head.features(), head.queries, gradients, begin, end,
                                       context, adjoint);
  }
  RowCounts CausalQueryGradients(const LinearHead& head, const GradientRows& gradients,
                                 int64_t begin, int64_t end, PrefixState& state) const {
    return kernels::cpu::CausalQueryGradients(head.features(), head.queries, head.keys, gradients,
                                              begin, end, chunk, context, state);
  }
  RowCounts CausalKeyGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                               int64_t end, PrefixState& adjoint) const {
    return kernels::cpu::CausalKeyGradients(head.features(), head.queries, head.keys, gradients,
                                            begin, end, chunk, context, adjoint);
  }
};

struct ReferenceKernels {
  RowCounts Append(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state) const {
    kernels::reference::AppendKeys(head.features(), head.keys, begin, end, state);
    return {};
  }
  RowCounts Read(const LinearHead& head, int64_t begin, int64_t end, const PrefixState& state,
                 const OutputRows& out) const {
    return kernels::reference::ReadQueries(head.features(), head.queries, begin, end, state, out);
  }
  RowCounts Causal(const LinearHead& head, int64_t begin, int64_t end, PrefixState& state,
                   const OutputRows& out) const {
    return kernels::reference::Causal(head.features(), head.queries, head.keys, begin, end, state,
                                      out);
  }
  RowCounts QueryGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                           int64_t end, const PrefixState& state, PrefixState& adjoint) const {
    return kernels::reference::QueryGradients(head.features(), head.queries, gradients, begin, end,
                                              state, adjoint);
  }
  RowCounts KeyGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                         int64_t end, const PrefixState& adjoint) const {
    return kernels::reference::KeyGradients(head.features(), head.keys, gradients, begin, end,
                                            adjoint);
  }
  RowCounts AppendQueries(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                          int64_t end, PrefixState& adjoint) const {
    return kernels::reference::AppendQueries(head.features(), head.queries, gradients, begin, end,
                                             adjoint);
  }
  RowCounts CausalQueryGradients(const LinearHead& head, const GradientRows& gradients,
                                 int64_t begin, int64_t end, PrefixState& state) const {
    return kernels::reference::CausalQueryGradients(head.features(), head.queries, head.keys,
                                                    gradients, begin, end, state);
  }
  RowCounts CausalKeyGradients(const LinearHead& head, const GradientRows& gradients, int64_t begin,
                               int64_t end, PrefixState& adjoint) const {
    return kernels::reference::CausalKeyGradients(head.features(), head.queries, head.keys,
                                                  gradients, begin, end, adjoint);
  }
};

// Work is cut by shape: a head's sequence into blocks whose states merge in order, so that one long
// sequence keeps all threads busy too.
struct Blocks {
  static constexpr int64_t kLeastRows = 1024, kMostRows = 4096;  // of a block, while blocks suffice
  static constexpr int64_t kPieces = 16;                         // that keep threads busy
  static constexpr int64_t kMost = 64;                           // blocks of a sequence
  static constexpr int64_t kStateBytes = 32 << 20;               // of all states alive at a time
  // So many heads keep threads busy: a causal sequence is then not cut, which saves a third of its
  // work.
  static constexpr int64_t kManyGroups = 8;

  Blocks(int64_t length, bool causal, int64_t groups, int64_t state_bytes) {
    // Bidirectional blocks cost little: as many as make enough pieces of work of all heads. Causal
    // ones cost work: only where heads are few.
    const int64_t wanted = causal ? kLeastRows * groups : length * groups / kPieces;
    const int64_t least = std::clamp(wanted, kLeastRows, kMostRows);
    const bool cut = length > least && !(causal && groups >= kManyGroups);
    const int64_t most = std::clamp<int64_t>(kStateBytes / state_bytes, 1, kMost);
    rows = cut ? std::max(least, (length + most - 1) / most) : length;
    count = (length + rows - 1) / rows;
  }

  int64_t rows, count;
};

// Entry b becomes the state of all blocks before b.
inline void PrefixStates(PrefixState* states, int64_t count) {
  PrefixState running(states[0].width, states[0].value_dim);
  for (int64_t block = 0; block < count; ++block) {
    PrefixState next = running;
    kernels::MergeInto(states[block], next);
    states[block] = std::exchange(running, std::move(next));
  }
}

// … of all blocks after b.
inline void SuffixStates(PrefixState* states, int64_t count) {
  PrefixState running(states[0].width, states[0].value_dim);
  for (int64_t block = count - 1; block >= 0; --block) {
    PrefixState next = running;
    kernels::MergeInto(states[block], next);
    states[block] = std::exchange(running, std::move(next));
  }
}

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_LINEAR_KERNELS_H_
