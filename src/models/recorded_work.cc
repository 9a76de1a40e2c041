#include "models/recorded_work.h"

#include "core/runtime.h"

namespace favor::models {

bool RecordedWork::Run(const Context& context, const std::function<void()>& work) {
  if (context.device().type == DeviceType::kCpu ||
      internal::Inside(context).operation_times != nullptr) {
    work();
    return true;
  }
  if (graph_) {
    graph_->Launch();
    return false;
  }
  if (has_run_) {
    graph_.emplace(context, work);
    graph_->Launch();
  } else {
    work();
    has_run_ = true;
  }
  return true;
}

void RecordedWork::Drop() {
  graph_.reset();
  has_run_ = false;
}

}  // namespace favor::models
