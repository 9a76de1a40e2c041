#include "core/device.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/error_text.h"

#if FAVOR_CUDA
#include <cuda_runtime_api.h>
#endif

namespace favor {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest SIMD register

#if FAVOR_CUDA
void CheckCuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kUnavailable;
  Throw(code, "cuda", "{}: {}", what, cudaGetErrorString(status));
}
#endif

}  // namespace

void ThrowWithoutCuda(std::string_view who, const Device& device) {
  Throw(ErrorCode::kUnavailable, who,
        "given device {}, but this favor was built without CUDA (cmake --preset cuda)",
        Name(device));
}

internal::Memory AllocateOn(const Device& device, int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  if (device.kind == DeviceKind::kCuda) {
#if FAVOR_CUDA
    CheckCuda(cudaSetDevice(device.index), "select GPU");
    void* memory = nullptr;
    CheckCuda(cudaMalloc(&memory, size == 0 ? kAlignment : size), "allocate GPU memory");
    internal::Memory owner(static_cast<std::byte*>(memory), {[](std::byte* p) { cudaFree(p); }});
    CheckCuda(cudaMemset(memory, 0, size), "clear GPU memory");
    return owner;
#else
    ThrowWithoutCuda("tensor", device);
#endif
  }
  // Linux promises more memory than there is and kills later: refuse early instead.
  if (bytes > PhysicalMemoryBytes()) {
    Throw(ErrorCode::kOutOfMemory, "tensor", "{:.1f} GiB asked for, this machine has {:.1f} GiB",
          static_cast<double>(bytes) / (1 << 30),
          static_cast<double>(PhysicalMemoryBytes()) / (1 << 30));
  }
  void* memory = std::aligned_alloc(kAlignment, size == 0 ? kAlignment : size);
  if (memory == nullptr) {
    Throw(ErrorCode::kOutOfMemory, "tensor", "{:.1f} GiB could not be allocated",
          static_cast<double>(bytes) / (1 << 30));
  }
  std::memset(memory, 0, size);
  return {static_cast<std::byte*>(memory), {[](std::byte* p) { std::free(p); }}};
}

void CopyBytes(void* to, const Device& to_device, const void* from, const Device& from_device,
               int64_t bytes) {
  if (bytes == 0) return;
  if (to_device.kind == DeviceKind::kCpu && from_device.kind == DeviceKind::kCpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  CheckCuda(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "copy");
#else
  ThrowWithoutCuda("copy", to_device.kind == DeviceKind::kCuda ? to_device : from_device);
#endif
}

void UseDevice([[maybe_unused]] const Device& device) {
#if FAVOR_CUDA
  if (device.kind == DeviceKind::kCuda) CheckCuda(cudaSetDevice(device.index), "select GPU");
#endif
}

void DestroyStream::operator()([[maybe_unused]] void* stream) const {
#if FAVOR_CUDA
  cudaStreamDestroy(static_cast<cudaStream_t>(stream));
#endif
}

DeviceStream MakeStream(const Device& device) {
  if (device.kind == DeviceKind::kCpu) return nullptr;
#if FAVOR_CUDA
  UseDevice(device);
  cudaStream_t stream = nullptr;
  CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  return DeviceStream(stream);
#else
  ThrowWithoutCuda("context", device);
#endif
}

void WaitFor([[maybe_unused]] const DeviceStream& stream) {
#if FAVOR_CUDA
  if (stream != nullptr)
    CheckCuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.get())), "wait for the GPU");
#endif
}

void ZeroBytes(void* memory, int64_t bytes, const Device& device,
               [[maybe_unused]] const DeviceStream& stream) {
  if (device.kind == DeviceKind::kCpu) {
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  CheckCuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes),
                            static_cast<cudaStream_t>(stream.get())),
            "clear GPU memory");
#else
  ThrowWithoutCuda("clear", device);
#endif
}

void SendTo(void* to, const void* from, int64_t bytes, const Device& device,
            [[maybe_unused]] const DeviceStream& stream) {
  if (device.kind == DeviceKind::kCpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  // Pageable memory is copied to a buffer of the driver before the call returns.
  CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                            static_cast<cudaStream_t>(stream.get())),
            "send");
#else
  ThrowWithoutCuda("send", device);
#endif
}

void ReadBack(void* to, const void* from, int64_t bytes, const Device& device,
              [[maybe_unused]] const DeviceStream& stream) {
  if (device.kind == DeviceKind::kCpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                            static_cast<cudaStream_t>(stream.get())),
            "read back");
  WaitFor(stream);
#else
  ThrowWithoutCuda("read back", device);
#endif
}

bool BuiltWithCuda() {
#if FAVOR_CUDA
  return true;
#else
  return false;
#endif
}

std::vector<GpuInfo> ListGpus() {
  std::vector<GpuInfo> gpus;
#if FAVOR_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    gpus.push_back({properties.name, static_cast<int64_t>(properties.totalGlobalMem),
                    properties.major, properties.minor});
  }
#endif
  return gpus;
}

int64_t PhysicalMemoryBytes() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace favor
