#include "benchmarks/peak_memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace favor::benchmarks {
namespace {

// A field of /proc/self/status in bytes, such as VmHWM.
std::optional<int64_t> StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return std::nullopt;
}

// The highest VmRSS, sampled every millisecond, for operating systems that cannot reset VmHWM.
int64_t SampledPeak(const std::function<void()>& work) {
  std::atomic<bool> done = false;
  std::atomic<int64_t> peak = 0;
  std::thread watch([&] {
    while (!done) {
      peak = std::max(peak.load(), StatusBytes("VmRSS").value_or(0));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  try {
    work();
  } catch (...) {
    done = true;
    watch.join();
    throw;
  }
  done = true;
  watch.join();
  return peak;
}

}  // namespace

std::optional<int64_t> PeakExtraBytes(const std::function<void()>& work) {
  malloc_trim(0);  // freed memory that is still resident would hide what the work takes
  const bool told = static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush);
  const auto before = StatusBytes("VmRSS");
  if (!before) return std::nullopt;
  if (!told) return std::max<int64_t>(0, SampledPeak(work) - *before);
  work();
  return std::max<int64_t>(0, StatusBytes("VmHWM").value_or(*before) - *before);
}

}  // namespace favor::benchmarks
