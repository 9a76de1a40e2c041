// Memory of a piece of work.
#ifndef FAVOR_BENCHMARKS_PEAK_MEMORY_H_
#define FAVOR_BENCHMARKS_PEAK_MEMORY_H_

#include <cstdint>
#include <functional>
#include <optional>

namespace favor::benchmarks {

// By how much the resident memory of this process rises at most above its level at the start while
// `work` runs: as the operating system counts it, or sampled every millisecond if its counter
// cannot be reset (/proc/self/clear_refs). Empty without /proc.
std::optional<int64_t> PeakExtraBytes(const std::function<void()>& work);

}  // namespace favor::benchmarks

#endif  // FAVOR_BENCHMARKS_PEAK_MEMORY_H_
