// Work that is queued again and again, on the same arrays: a GPU starts it as one recorded graph.
#ifndef FAVOR_MODELS_RECORDED_WORK_H_
#define FAVOR_MODELS_RECORDED_WORK_H_

#include <functional>
#include <optional>

#include "core/device_graph.h"
#include "favor/context.h"

namespace favor::models {

class RecordedWork {
 public:
  // Runs what `work` queues in the context. The first call makes what it needs only once, such as
  // plans of products; the second is recorded; after these `work` is not called, but its record
  // started. Returns whether it was called, as it always is on a CPU and while operations are
  // timed.
  bool Run(const Context& context, const std::function<void()>& work);
  // Begins anew: arrays have moved.
  void Drop();

 private:
  bool has_run_ = false;
  std::optional<DeviceGraph> graph_;
};

}  // namespace favor::models

#endif  // FAVOR_MODELS_RECORDED_WORK_H_
