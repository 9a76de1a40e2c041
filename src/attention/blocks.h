// The cut of a sequence into blocks, and the states of what lies beside each.
#ifndef FAVOR_ATTENTION_BLOCKS_H_
#define FAVOR_ATTENTION_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/linear_attention.h"
#include "kernels/prefix_state.h"

namespace favor::attention {

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

  kernels::RowRange Rows(int64_t block, int64_t length) const {
    return {block * rows, std::min(length, (block + 1) * rows)};
  }

  int64_t rows, count;
};

enum class Side { kBefore, kAfter };

// Entry b becomes the state of all blocks before, or after, b.
inline void ScanStates(std::span<kernels::PrefixState> states, Side side) {
  kernels::PrefixState running(states[0].width, states[0].value_dim);
  for (size_t i = 0; i < states.size(); ++i) {
    kernels::PrefixState& state = states[side == Side::kBefore ? i : states.size() - 1 - i];
    kernels::PrefixState next = running;
    kernels::MergeInto(state, next);
    state = std::exchange(running, std::move(next));
  }
}

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_BLOCKS_H_
