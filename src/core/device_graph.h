// Work on a GPU that is recorded once and started again as a whole, its time and its memory: what
// kernels take without the host.
#ifndef FAVOR_CORE_DEVICE_GRAPH_H_
#define FAVOR_CORE_DEVICE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "core/recorded_scratch.h"
#include "favor/context.h"

namespace favor {

class DeviceGraph {
 public:
  // Calls `work`, which queues operations in the context, and records what it queues instead of
  // running it. Arrays that the operations use must outlive this object, which holds their scratch
  // memory; `work` must not wait for the GPU or copy from the host. Throws kUnavailable for a
  // context on the CPU.
  DeviceGraph(const Context& context, const std::function<void()>& work);

  // Starts the recorded work again, in the context.
  void Launch() const;

 private:
  struct Destroy {
    void operator()(void* graph) const;
  };
  const Context& context_;
  RecordedScratch scratch_;
  std::unique_ptr<void, Destroy> graph_;  // cudaGraphExec_t
};

// Queues a copy between two arrays on the context's GPU: what memory can do at best.
void QueueCopy(void* to, const void* from, int64_t bytes, const Context& context);

// The most bytes of scratch memory that `work`, which queues operations in a context on a GPU, has
// at a time.
int64_t ScratchPeakOf(const Context& context, const std::function<void()>& work);

// Seconds on a GPU between two points of the context's work.
class DeviceStopwatch {
 public:
  // Throws kUnavailable for a context on the CPU.
  explicit DeviceStopwatch(const Context& context);

  void Start();
  void Stop();
  double Seconds();  // from Start to Stop; waits for the work before Stop

 private:
  struct Destroy {
    void operator()(void* event) const;
  };
  const Context& context_;
  std::unique_ptr<void, Destroy> begin_, end_;  // cudaEvent_t
};

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_GRAPH_H_
