// The inside of a Context: worker threads, the stream of a GPU and the pool of scratch
// buffers.
#ifndef FAVOR_CORE_RUNTIME_H_
#define FAVOR_CORE_RUNTIME_H_

#include <cstdint>
#include <memory>

#include "core/access.h"
#include "core/device.h"
#include "core/scratch.h"
#include "favor/context.h"

namespace favor {
class OperationTimes;
}

namespace favor::internal {

struct Workers;

class Runtime {
 public:
  explicit Runtime(const ContextOptions& options);
  ~Runtime();

  int threads;
  uint64_t seed;
  Device device;
  DeviceStream stream;           // null on a CPU
  DevicePool scratch_of_device;  // scratch memory of a GPU, null on a CPU
  std::unique_ptr<Workers> workers;
  ScratchPool scratch;
  OperationTimes* operation_times = nullptr;  // who asks for them (core/operation_times.h)
};

}  // namespace favor::internal

#endif  // FAVOR_CORE_RUNTIME_H_
