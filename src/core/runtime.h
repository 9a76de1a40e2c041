// The inside of a Context: the arena of worker threads, the stream of a GPU and the pool of scratch
// buffers.
#ifndef FAVOR_CORE_RUNTIME_H_
#define FAVOR_CORE_RUNTIME_H_

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <cstdint>
#include <optional>

#include "core/access.h"
#include "core/device.h"
#include "core/scratch.h"
#include "favor/context.h"

namespace favor {
class OperationTimes;
}

namespace favor::internal {

class Runtime {
 public:
  explicit Runtime(const ContextOptions& options);

  int threads;
  uint64_t seed;
  Device device;
  DeviceStream stream;           // null on a CPU
  DevicePool scratch_of_device;  // scratch memory of a GPU, null on a CPU
  tbb::task_arena arena;
  // TBB starts at most as many workers as there are cores unless told otherwise. The number is the
  // same for all contexts, because TBB uses the smallest of those alive.
  std::optional<tbb::global_control> more_workers;
  ScratchPool scratch;
  OperationTimes* operation_times = nullptr;  // who asks for them (core/operation_times.h)
};

}  // namespace favor::internal

#endif  // FAVOR_CORE_RUNTIME_H_
