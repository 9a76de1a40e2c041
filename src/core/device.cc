#include "core/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/error_text.h"

#if FAVOR_CUDA
#include "core/cuda_check.h"
#endif

namespace favor {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest SIMD register

// Pages of 2 MiB, where the system has them: rows of a large matrix lie on a page each otherwise,
// and finding the pages takes longer than reading the rows.
constexpr size_t kHugePage = size_t{2} << 20;

// The address sanitizer sees what lies around an array only if that comes from malloc.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAVOR_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FAVOR_ADDRESS_SANITIZER 1
#endif
#ifdef FAVOR_ADDRESS_SANITIZER
constexpr bool kMayMapPages = false;
#else
constexpr bool kMayMapPages = true;
#endif

// Large arrays are pages of their own, which the system clears when they are first written: by the
// threads that write them, instead of by one that allocates.
bool HasPagesOfItsOwn(size_t size) { return kMayMapPages && size >= 2 * kHugePage; }
size_t WholePages(size_t size) { return (size + kHugePage - 1) / kHugePage * kHugePage; }

std::byte* MapPages(size_t size) {
  const size_t bytes = WholePages(size), reserved = bytes + kHugePage;
  void* memory =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // What lies before the first boundary of a page, and after the last, is given back.
  auto* begin = static_cast<std::byte*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + bytes, kHugePage - before);
  begin += before;
#ifdef MADV_HUGEPAGE
  // Only pages that are used as a whole, so that no more memory is used than was requested; a
  // refusal costs only time.
  madvise(begin, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return begin;
}

// Zeros.
std::byte* AllocateHost(size_t size) {
  if (HasPagesOfItsOwn(size)) return MapPages(size);
  void* memory = std::aligned_alloc(kAlignment, size);
  if (memory != nullptr) std::memset(memory, 0, size);
  return static_cast<std::byte*>(memory);
}

void FreeHost(std::byte* memory, size_t size) {
  if (HasPagesOfItsOwn(size)) {
    munmap(memory, WholePages(size));
  } else {
    std::free(memory);
  }
}

#if FAVOR_CUDA
// Streams of contexts and the default stream, on which cudaMemcpy and cudaMemset run, do not wait
// for each other.
void WaitForAllOf(const Device& device) {
  if (device.type == DeviceType::kCpu) return;
  UseDevice(device);
  CheckCuda(cudaDeviceSynchronize(), "wait for the GPU");
}
void WaitForDefaultStream() {
  CheckCuda(cudaStreamSynchronize(cudaStreamLegacy), "wait for the GPU");
}

cudaStream_t Cuda(const DeviceStream& stream) { return static_cast<cudaStream_t>(stream.get()); }
cudaMemPool_t Cuda(const DevicePool& pool) { return static_cast<cudaMemPool_t>(pool.get()); }
#endif

}  // namespace

void ThrowWithoutCuda(std::string_view who, const Device& device) {
  Throw(ErrorCode::kUnavailable, who,
        "given device {}, but this favor was built without CUDA (cmake --preset cuda)",
        Name(device));
}

internal::Memory AllocateOn(const Device& device, int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  if (device.type == DeviceType::kCuda) {
#if FAVOR_CUDA
    CheckCuda(cudaSetDevice(device.index), "select GPU");
    void* memory = nullptr;
    CheckAllocation(cudaMalloc(&memory, size == 0 ? kAlignment : size), "tensor", bytes);
    internal::Memory owner(static_cast<std::byte*>(memory),
                           {[](std::byte* p, size_t) { cudaFree(p); }});
    CheckCuda(cudaMemset(memory, 0, size), "clear GPU memory");
    WaitForDefaultStream();
    return owner;
#else
    ThrowWithoutCuda("tensor", device);
#endif
  }
  // Linux promises more memory than there is and kills the process later: refuse early instead.
  if (bytes > PhysicalMemoryBytes()) {
    Throw(ErrorCode::kOutOfMemory, "tensor", "{:.1f} GiB requested, this machine has {:.1f} GiB",
          static_cast<double>(bytes) / (1 << 30),
          static_cast<double>(PhysicalMemoryBytes()) / (1 << 30));
  }
  const size_t allocated = size == 0 ? kAlignment : size;
  std::byte* memory = AllocateHost(allocated);
  if (memory == nullptr) {
    Throw(ErrorCode::kOutOfMemory, "tensor", "{:.1f} GiB could not be allocated",
          static_cast<double>(bytes) / (1 << 30));
  }
  return {memory, {FreeHost, allocated}};
}

internal::Memory AllocateForCopies(const Device& device, int64_t bytes) {
  if (device.type == DeviceType::kCpu) return AllocateOn(device, bytes);
#if FAVOR_CUDA
  UseDevice(device);
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max(bytes, int64_t{kAlignment}));
  CheckAllocation(cudaHostAlloc(&memory, size, cudaHostAllocDefault), "memory for copies", bytes);
  std::memset(memory, 0, size);
  return {static_cast<std::byte*>(memory), {[](std::byte* p, size_t) { cudaFreeHost(p); }}};
#else
  ThrowWithoutCuda("memory for copies", device);
#endif
}

void CopyBytes(void* to, const Device& to_device, const void* from, const Device& from_device,
               int64_t bytes) {
  if (bytes == 0) return;
  if (to_device.type == DeviceType::kCpu && from_device.type == DeviceType::kCpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  WaitForAllOf(from_device);
  WaitForAllOf(to_device);
  CheckCuda(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault), "copy");
  WaitForDefaultStream();
#else
  ThrowWithoutCuda("copy", to_device.type == DeviceType::kCuda ? to_device : from_device);
#endif
}

void UseDevice([[maybe_unused]] const Device& device) {
#if FAVOR_CUDA
  if (device.type == DeviceType::kCuda) CheckCuda(cudaSetDevice(device.index), "select GPU");
#endif
}

void DestroyStream::operator()([[maybe_unused]] void* stream) const {
#if FAVOR_CUDA
  cudaStreamDestroy(static_cast<cudaStream_t>(stream));
#endif
}

DeviceStream MakeStream(const Device& device) {
  if (device.type == DeviceType::kCpu) return nullptr;
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
  if (stream != nullptr) CheckCuda(cudaStreamSynchronize(Cuda(stream)), "wait for the GPU");
#endif
}

void DestroyPool::operator()([[maybe_unused]] void* pool) const {
#if FAVOR_CUDA
  cudaMemPoolDestroy(static_cast<cudaMemPool_t>(pool));
#endif
}

DevicePool MakePool(const Device& device, [[maybe_unused]] int64_t most_free_bytes) {
  if (device.type == DeviceType::kCpu) return nullptr;
#if FAVOR_CUDA
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = device.index};
  cudaMemPool_t pool = nullptr;
  CheckCuda(cudaMemPoolCreate(&pool, &properties), "make a memory pool");
  DevicePool owner(pool);
  auto threshold = static_cast<uint64_t>(most_free_bytes);
  CheckCuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
            "bound a memory pool");
  return owner;
#else
  ThrowWithoutCuda("context", device);
#endif
}

void* TakeFrom([[maybe_unused]] const DevicePool& pool, [[maybe_unused]] int64_t bytes,
               [[maybe_unused]] const DeviceStream& stream) {
  void* memory = nullptr;
#if FAVOR_CUDA
  CheckAllocation(
      cudaMallocFromPoolAsync(&memory, static_cast<size_t>(bytes), Cuda(pool), Cuda(stream)),
      "scratch memory", bytes);
#endif
  return memory;
}

void GiveBack([[maybe_unused]] void* memory, [[maybe_unused]] const DeviceStream& stream) noexcept {
#if FAVOR_CUDA
  cudaFreeAsync(memory, Cuda(stream));
#endif
}

void ReleaseFree([[maybe_unused]] const DevicePool& pool) {
#if FAVOR_CUDA
  if (pool != nullptr) CheckCuda(cudaMemPoolTrimTo(Cuda(pool), 0), "release GPU memory");
#endif
}

int64_t PeakOf([[maybe_unused]] const DevicePool& pool) {
  uint64_t peak = 0;
#if FAVOR_CUDA
  if (pool != nullptr)
    CheckCuda(cudaMemPoolGetAttribute(Cuda(pool), cudaMemPoolAttrUsedMemHigh, &peak),
              "read the peak of GPU memory");
#endif
  return static_cast<int64_t>(peak);
}

void RestartPeak([[maybe_unused]] const DevicePool& pool) {
#if FAVOR_CUDA
  uint64_t zero = 0;
  if (pool != nullptr)
    CheckCuda(cudaMemPoolSetAttribute(Cuda(pool), cudaMemPoolAttrUsedMemHigh, &zero),
              "restart the peak of GPU memory");
#endif
}

void ZeroBytes(void* memory, int64_t bytes, const Device& device,
               [[maybe_unused]] const DeviceStream& stream) {
  if (device.type == DeviceType::kCpu) {
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  CheckCuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), Cuda(stream)),
            "clear GPU memory");
#else
  ThrowWithoutCuda("clear", device);
#endif
}

void SendTo(void* to, const void* from, int64_t bytes, const Device& device,
            [[maybe_unused]] const DeviceStream& stream) {
  if (device.type == DeviceType::kCpu) {
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
  if (device.type == DeviceType::kCpu) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
#if FAVOR_CUDA
  CheckCuda(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, Cuda(stream)),
      "read back");
  WaitFor(stream);
#else
  ThrowWithoutCuda("read back", device);
#endif
}

void internal::FailGpuCall([[maybe_unused]] int64_t successes, [[maybe_unused]] bool for_memory) {
#if FAVOR_CUDA
  FailCudaCall(successes, for_memory ? cudaErrorMemoryAllocation : cudaErrorUnknown);
#endif
}

int64_t FreeBytesOf(const Device& gpu) {
#if FAVOR_CUDA
  CheckCuda(cudaSetDevice(gpu.index), "select GPU");
  size_t free = 0, all = 0;
  CheckCuda(cudaMemGetInfo(&free, &all), "ask for free memory");
  return static_cast<int64_t>(free);
#else
  ThrowWithoutCuda("memory", gpu);
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
