// What the operations of one public call, or of one training step, find in their arrays: counts and
// sums on the device that they run on. Operations add to an entry; the caller reads all entries
// once, at the end: nothing in between waits for the device or depends on data.
#ifndef FAVOR_CORE_TALLY_H_
#define FAVOR_CORE_TALLY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/device_work.h"
#include "favor/context.h"

namespace favor {

struct TallyEntry {
  // Rows of attention.
  int64_t nonpositive = 0;  // denominators ≤ 0, possible with signed maps: such an output row is 0
  int64_t empty = 0;        // rows without any key: the output row is 0 too
  int64_t unusable = 0;     // rows of arguments or results that are not finite or out of range
  // Targets of a loss.
  int64_t targets = 0, correct = 0;
  double loss = 0;          // summed over targets, in nats
  double squared_norm = 0;  // Σ g² of gradients
};

class Tally {
 public:
  // `entries` zeros on the context's device: one for each place that is counted separately. Behind
  // them is an array of `floats` for results that the caller wants with the entries.
  explicit Tally(const Context& context, int64_t entries = 1, int64_t floats = 0);

  int64_t entries() const { return entries_; }
  // Entry `index`, in memory of the device.
  TallyEntry* At(int64_t index = 0) const;
  View Floats() const;  // [floats], in memory of the device; undefined at first
  void Clear();         // sets the entries to 0
  // Waits until the operations that were started are done; once, also if `floats`, of the size of
  // Floats(), is to be filled.
  std::vector<TallyEntry> Read(std::span<float> floats = {}) const;

 private:
  const Context& context_;
  int64_t entries_, floats_;
  WorkMemory memory_;
};

}  // namespace favor

#endif  // FAVOR_CORE_TALLY_H_
