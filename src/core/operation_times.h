// Where the time of a step goes: seconds per operation of a context, while they are asked for.
#ifndef FAVOR_CORE_OPERATION_TIMES_H_
#define FAVOR_CORE_OPERATION_TIMES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "favor/context.h"

namespace favor {

// Calls of an operation that are alike.
struct OperationTime {
  std::string name;    // what errors call it: "matmul"
  std::string detail;  // what tells them from other calls, such as sizes; empty if nothing does
  int64_t calls = 0;
  double seconds = 0;
};

// From here on, operations that run in the context are timed, until this is destroyed. One at a
// time, for a context whose operations are called from one thread. On a GPU times are those of the
// work that calls queue, between two events: if the host is late, the wait for it is part of them.
class OperationTimes {
 public:
  explicit OperationTimes(const Context& context);
  ~OperationTimes();
  OperationTimes(const OperationTimes&) = delete;
  OperationTimes& operator=(const OperationTimes&) = delete;

  // Summed over the calls so far, in the order of the first calls. Waits for a GPU.
  std::vector<OperationTime> Sums();

 private:
  friend class OperationTimer;
  class Watch;
  class HostWatch;
  class GpuWatch;
  struct Call {
    std::string name, detail;
    std::unique_ptr<Watch> watch;
  };

  std::unique_ptr<Watch> StartWatch() const;

  const Context& context_;
  std::deque<Call> calls_;  // timers keep pointers to them
  bool inside_ = false;     // an operation runs: those that it calls are part of it
};

// Times one call of an operation, from Start on, if somebody asks; costs nothing else.
class OperationTimer {
 public:
  explicit OperationTimer(const Context& context);
  ~OperationTimer();
  OperationTimer(const OperationTimer&) = delete;
  OperationTimer& operator=(const OperationTimer&) = delete;

  bool IsAsked() const { return times_ != nullptr; }
  void Start(std::string_view name, std::string detail);  // if it is asked

 private:
  OperationTimes* times_;
  OperationTimes::Call* call_ = nullptr;
};

}  // namespace favor

#endif  // FAVOR_CORE_OPERATION_TIMES_H_
