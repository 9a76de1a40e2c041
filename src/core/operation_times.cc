#include "core/operation_times.h"

#include "core/runtime.h"

namespace favor {

OperationTimes::OperationTimes(const Context& context) : context_(context) {
  internal::Inside(context).operation_times = this;
}

OperationTimes::~OperationTimes() { internal::Inside(context_).operation_times = nullptr; }

OperationTimer::OperationTimer(const Context& context, std::string_view name)
    : times_(internal::Inside(context).operation_times), name_(name) {
  if (times_ == nullptr) return;
  if (times_->inside_) {
    times_ = nullptr;
  } else {
    times_->inside_ = true;
    watch_.emplace();
  }
}

OperationTimer::~OperationTimer() {
  if (times_ == nullptr) return;
  times_->seconds_[std::string(name_)] += watch_->Seconds();
  times_->inside_ = false;
}

}  // namespace favor
