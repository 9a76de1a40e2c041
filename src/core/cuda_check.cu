#include "core/cuda_check.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "favor/error.h"

namespace favor {
namespace {

std::atomic<int64_t> calls_to_failure{-1};
std::atomic<cudaError_t> failure{cudaErrorUnknown};

// The status of a call, or what a test puts in its place.
cudaError_t Seen(cudaError_t status) {
  if (calls_to_failure.load() < 0 || calls_to_failure.fetch_sub(1) > 0) return status;
  return failure.load();
}

[[noreturn]] void ThrowError(cudaError_t status, const char* who, const std::string& what) {
  cudaGetLastError();  // clears it: the next launch would report this error as its own
  const bool memory = status == cudaErrorMemoryAllocation;
  throw Error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnavailable, who, what);
}

std::string GibOf(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", bytes / (1 << 30));
  return text;
}

}  // namespace

void CheckCuda(cudaError_t status, const char* what, const char* who) {
  const cudaError_t seen = Seen(status);
  if (seen != cudaSuccess)
    ThrowError(seen, who, std::string(what) + ": " + cudaGetErrorString(seen));
}

void CheckAllocation(cudaError_t status, const char* who, int64_t bytes) {
  const cudaError_t seen = Seen(status);
  if (seen == cudaSuccess) return;
  if (seen != cudaErrorMemoryAllocation)
    ThrowError(seen, who, std::string("allocate GPU memory: ") + cudaGetErrorString(seen));
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  ThrowError(seen, who,
             GibOf(static_cast<double>(bytes)) + " could not be allocated on the GPU, " +
                 GibOf(static_cast<double>(free)) + " of its " + GibOf(static_cast<double>(total)) +
                 " are free: fewer or shorter sequences need less, and so do arrays of bf16");
}

void internal::FailCudaCall(int64_t successes, cudaError_t status) {
  failure = status;
  calls_to_failure = successes;
}

}  // namespace favor
