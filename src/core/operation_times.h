// Where the time of a step goes: seconds per operation of a context, while they are asked for.
#ifndef FAVOR_CORE_OPERATION_TIMES_H_
#define FAVOR_CORE_OPERATION_TIMES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/stopwatch.h"
#include "favor/context.h"

namespace favor {

// From here on, operations that run in the context are timed, until this is destroyed. One at a
// time, for a context whose operations are called from one thread. On a GPU it times launches.
class OperationTimes {
 public:
  explicit OperationTimes(const Context& context);
  ~OperationTimes();
  OperationTimes(const OperationTimes&) = delete;
  OperationTimes& operator=(const OperationTimes&) = delete;

  // By the name that errors call an operation ("matmul"), summed over calls.
  const std::map<std::string, double, std::less<>>& seconds() const { return seconds_; }

 private:
  friend class OperationTimer;

  const Context& context_;
  std::map<std::string, double, std::less<>> seconds_;
  bool inside_ = false;  // an operation runs: those that it calls are part of it
};

// Times one call of an operation if somebody asks; costs nothing else.
class OperationTimer {
 public:
  OperationTimer(const Context& context, std::string_view name);
  ~OperationTimer();
  OperationTimer(const OperationTimer&) = delete;
  OperationTimer& operator=(const OperationTimer&) = delete;

 private:
  OperationTimes* times_;
  std::string_view name_;
  std::optional<Stopwatch> watch_;
};

}  // namespace favor

#endif  // FAVOR_CORE_OPERATION_TIMES_H_
