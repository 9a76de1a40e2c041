// The inside of a Context: worker threads, the stream of a GPU and the pool of scratch
// buffers.
#ifndef FAVOR_CORE_RUNTIME_H_
#define FAVOR_CORE_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "core/access.h"
#include "core/device.h"
#include "core/scratch.h"
#include "favor/context.h"

namespace favor {
class OperationTimes;
class RecordedScratch;
}  // namespace favor

namespace favor::internal {

struct Workers;

// Memory for copies from a GPU, by one thread at a time.
struct HostMemory {
  std::mutex mutex;
  Memory memory;
  int64_t bytes = 0;
};

class Runtime {
 public:
  explicit Runtime(const ContextOptions& options);
  ~Runtime();

  int threads;
  uint64_t seed;
  Device device;
  DeviceStream stream;           // null on a CPU
  DevicePool scratch_of_device;  // scratch memory of a GPU, null on a CPU
  HostMemory read_back;          // what a GPU writes for the host
  std::unique_ptr<Workers> workers;
  ScratchPool scratch;
  OperationTimes* operation_times = nullptr;    // who asks for them (core/operation_times.h)
  RecordedScratch* recorded_scratch = nullptr;  // of work that is being recorded
};

}  // namespace favor::internal

#endif  // FAVOR_CORE_RUNTIME_H_
