// Errors of CUDA as exceptions. The result of every call and of every launch passes through here,
// so that tests can make each of them fail.
#ifndef FAVOR_CORE_CUDA_CHECK_H_
#define FAVOR_CORE_CUDA_CHECK_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace favor {

// Throws kOutOfMemory or kUnavailable, "who: what: error", unless `status` is success.
void CheckCuda(cudaError_t status, const char* what, const char* who = "cuda");
// The same for an allocation of so many bytes: says what did not fit, and what would.
void CheckAllocation(cudaError_t status, const char* who, int64_t bytes);

namespace internal {

// Of the calls that are checked from now on, the one after `successes` others fails with `status`;
// its work is done nevertheless. A negative number: none.
void FailCudaCall(int64_t successes, cudaError_t status);

}  // namespace internal
}  // namespace favor

#endif  // FAVOR_CORE_CUDA_CHECK_H_
