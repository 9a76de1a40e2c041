// How a sequence is cut into blocks, and the states of what lies before or after each block.
#ifndef FAVOR_KERNELS_CPU_BLOCKS_H_
#define FAVOR_KERNELS_CPU_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "core/parallel.h"
#include "kernels/head_rows.h"
#include "kernels/prefix_state.h"

namespace favor::kernels::cpu {

// Work is cut by shape: a head's sequence into blocks whose states merge in order, so that even one
// long sequence keeps all threads busy.
struct Blocks {
  // Rows of a block; more if that many blocks would exceed kMost or kStateBytes.
  static constexpr int64_t kLeastRows = 1024, kMostRows = 4096;
  static constexpr int64_t kPieces = 16;            // enough pieces of work to keep threads busy
  static constexpr int64_t kMost = 256;             // at most so many blocks of a sequence
  static constexpr int64_t kStateBytes = 32 << 20;  // at most, for all states alive at a time
  // With this many heads threads are busy anyway: a causal sequence is then not cut, which saves a
  // third of its work.
  static constexpr int64_t kManyGroups = 8;

  // `most_rows`: longer sequences are cut in any case.
  Blocks(int64_t length, bool causal, int64_t groups, int64_t state_bytes, int64_t most_rows) {
    // Bidirectional blocks cost little: as many as give enough pieces of work over all heads.
    // Causal ones cost extra work: they are cut only if heads are few.
    const int64_t wanted = causal ? kLeastRows * groups : length * groups / kPieces;
    const int64_t least = std::clamp(wanted, kLeastRows, kMostRows);
    const bool cut = length > least && !(causal && groups >= kManyGroups && length <= most_rows);
    const int64_t most = std::clamp<int64_t>(kStateBytes / state_bytes, 1, kMost);
    rows = cut ? std::max(least, (length + most - 1) / most) : length;
    count = (length + rows - 1) / rows;
  }

  RowRange Rows(int64_t block, int64_t length) const {
    return {block * rows, std::min(length, (block + 1) * rows)};
  }

  int64_t rows, count;
};

enum class Side { kBefore, kAfter };

// Entry b becomes the state of all blocks before, or after, b.
void ScanStates(const PrefixStates& states, Side side);

// Sums work(piece) over pieces, in their order.
template <class Work>
RowCounts SumPieces(const Context& context, int64_t pieces, const Work& work) {
  return ParallelReduce(
      context, pieces, 1, RowCounts{}, [&](int64_t piece, int64_t) { return work(piece); },
      [](RowCounts& total, const RowCounts& part) { total += part; });
}

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_BLOCKS_H_
