// Time since a moment.
#ifndef FAVOR_CORE_STOPWATCH_H_
#define FAVOR_CORE_STOPWATCH_H_

#include <chrono>

namespace favor {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace favor

#endif  // FAVOR_CORE_STOPWATCH_H_
