// Memory on devices, and which devices there are. CUDA parts exist if favor was built with
// FAVOR_CUDA.
#ifndef FAVOR_CORE_DEVICE_H_
#define FAVOR_CORE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "favor/tensor.h"

namespace favor {

// Zeroed memory. Throws kOutOfMemory or kUnavailable.
internal::Memory AllocateOn(const Device& device, int64_t bytes);

// Memory of the CPU, zeroed, that a GPU reads and writes itself: copies to and from it do not stop
// at a buffer of the driver. For the CPU ordinary memory.
internal::Memory AllocateForCopies(const Device& device, int64_t bytes);

// Copies between any two devices, after all work that was queued on them; returns when the bytes
// have arrived. Throws kUnavailable for a GPU if there is no CUDA.
void CopyBytes(void* to, const Device& to_device, const void* from, const Device& from_device,
               int64_t bytes);

// Makes a GPU the current one of this thread; does nothing for the CPU.
void UseDevice(const Device& device);

// A queue of work on a GPU (cudaStream_t): null for the CPU, and before anything is queued.
struct DestroyStream {
  void operator()(void* stream) const;
};
using DeviceStream = std::unique_ptr<void, DestroyStream>;
DeviceStream MakeStream(const Device& device);  // throws kUnavailable if there is no such GPU
void WaitFor(const DeviceStream& stream);

// Memory of a GPU that is taken and given back in the order of the work on a stream
// (cudaMemPool_t): null for the CPU.
struct DestroyPool {
  void operator()(void* pool) const;
};
using DevicePool = std::unique_ptr<void, DestroyPool>;
// The pool keeps up to `most_free_bytes` of free memory; the rest goes back to the GPU.
DevicePool MakePool(const Device& device, int64_t most_free_bytes);
void* TakeFrom(const DevicePool& pool, int64_t bytes, const DeviceStream& stream);
void GiveBack(void* memory, const DeviceStream& stream) noexcept;
void ReleaseFree(const DevicePool& pool);  // frees what finished work has given back
// The most bytes that were taken at a time since RestartPeak.
int64_t PeakOf(const DevicePool& pool);
void RestartPeak(const DevicePool& pool);

// Sets bytes to 0: queued on the stream of a GPU, at once on the CPU.
void ZeroBytes(void* memory, int64_t bytes, const Device& device, const DeviceStream& stream);
// Copies from the CPU, queued on the stream of a GPU; `from` may change once this returns.
void SendTo(void* to, const void* from, int64_t bytes, const Device& device,
            const DeviceStream& stream);
// Copies to the CPU what the work queued before leaves in `from`; returns when it has arrived.
void ReadBack(void* to, const void* from, int64_t bytes, const Device& device,
              const DeviceStream& stream);

namespace internal {

// For tests: of the calls to CUDA from now on, the one after `successes` others fails, because
// memory is short or for an unknown reason; its work is done nevertheless. A negative number: none.
void FailGpuCall(int64_t successes, bool for_memory);

}  // namespace internal

bool BuiltWithCuda();
[[noreturn]] void ThrowWithoutCuda(std::string_view who, const Device& device);

struct GpuInfo {
  std::string name;
  int64_t memory_bytes;
  int major, minor;  // compute capability
};
std::vector<GpuInfo> ListGpus();         // empty if there is no driver or no GPU
int64_t FreeBytesOf(const Device& gpu);  // memory that nobody has taken

int64_t PhysicalMemoryBytes();

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_H_
