// Time and memory of a piece of work.
#ifndef FAVOR_LAB_MEASURE_H_
#define FAVOR_LAB_MEASURE_H_

#include <cstdint>
#include <functional>
#include <optional>

namespace favor::lab {

// The least of the times of `repeats` runs, in seconds: what the work takes when nothing disturbs
// it.
double LeastSeconds(int repeats, const std::function<void()>& work);

// By how much the resident memory of this process rises above its level at the start while `work`
// runs, at its highest: as the kernel counts it, or by looking every millisecond where its counter
// cannot be reset (/proc/self/clear_refs). Empty without /proc.
std::optional<int64_t> PeakExtraBytes(const std::function<void()>& work);

}  // namespace favor::lab

#endif  // FAVOR_LAB_MEASURE_H_
