// Counts of rows of attention by outcome, which pieces of work sum up before they are added to a
// tally.
#ifndef FAVOR_KERNELS_ROW_COUNTS_H_
#define FAVOR_KERNELS_ROW_COUNTS_H_

#include <cstdint>

#include "core/tally.h"

namespace favor::kernels {

// The counts have the same names in TallyEntry.
struct [[nodiscard]] RowCounts {
  int64_t nonpositive = 0, empty = 0, unusable = 0;

  RowCounts& operator+=(const RowCounts& other) {
    nonpositive += other.nonpositive;
    empty += other.empty;
    unusable += other.unusable;
    return *this;
  }
  void AddTo(TallyEntry& tally) const {
    tally.nonpositive += nonpositive;
    tally.empty += empty;
    tally.unusable += unusable;
  }
};

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ROW_COUNTS_H_
