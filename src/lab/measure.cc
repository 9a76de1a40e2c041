#include "lab/measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>

namespace favor::lab {
namespace {

// A field of /proc/self/status in bytes, such as VmHWM.
std::optional<int64_t> StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return std::nullopt;
}

}  // namespace

double LeastSeconds(int repeats, const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    least = std::min(
        least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

std::optional<int64_t> PeakExtraBytes(const std::function<void()>& work) {
  malloc_trim(0);  // freed memory that is still resident would hide what the work takes
  if (!(std::ofstream("/proc/self/clear_refs") << "5")) return std::nullopt;
  const auto before = StatusBytes("VmRSS");
  work();
  const auto peak = StatusBytes("VmHWM");
  if (!before || !peak) return std::nullopt;
  return std::max<int64_t>(0, *peak - *before);
}

}  // namespace favor::lab
