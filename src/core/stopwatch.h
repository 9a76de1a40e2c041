// Measuring time: since a moment, and of a piece of work.
#ifndef FAVOR_CORE_STOPWATCH_H_
#define FAVOR_CORE_STOPWATCH_H_

#include <algorithm>
#include <chrono>
#include <limits>

namespace favor {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The shortest time of `repeats` runs, in seconds: what the work takes when nothing disturbs it.
template <class Work>
double LeastSeconds(int repeats, const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    work();
    least = std::min(least, watch.Seconds());
  }
  return least;
}

}  // namespace favor

#endif  // FAVOR_CORE_STOPWATCH_H_
