// Memory on a device and what devices there are. CUDA parts exist where favor was built with
// FAVOR_CUDA.
#ifndef FAVOR_CORE_DEVICE_H_
#define FAVOR_CORE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "favor/tensor.h"

namespace favor {

// Zeroed memory. Throws kOutOfMemory or kUnavailable.
internal::Memory AllocateOn(const Device& device, int64_t bytes);

// Copies between any two devices; returns when the bytes have arrived. Throws kUnavailable for a
// GPU where there is no CUDA.
void CopyBytes(void* to, const Device& to_device, const void* from, const Device& from_device,
               int64_t bytes);

// Makes a GPU the current one of this thread; nothing for the CPU.
void UseDevice(const Device& device);

bool BuiltWithCuda();
[[noreturn]] void ThrowWithoutCuda(std::string_view who, const Device& device);

struct GpuInfo {
  std::string name;
  int64_t memory_bytes;
  int major, minor;  // compute capability
};
std::vector<GpuInfo> ListGpus();  // empty where there is no driver or no GPU

int64_t PhysicalMemoryBytes();

}  // namespace favor

#endif  // FAVOR_CORE_DEVICE_H_
