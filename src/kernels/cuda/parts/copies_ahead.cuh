// Copies from global to shared memory that a thread starts long before it reads them (cp.async). A
// thread sees its own once it has waited.
#ifndef FAVOR_KERNELS_CUDA_PARTS_COPIES_AHEAD_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_COPIES_AHEAD_CUH_

#include <cstdint>

namespace favor::kernels::cuda::ahead {

// 8 or 16 bytes, both sides aligned to as many.
template <int kBytes>
__device__ __forceinline__ void Copy(void* to, const void* from) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(kBytes)
                 : "memory");
  }
}
// The copies since the last Commit become a group.
__device__ __forceinline__ void Commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kPending` groups, the last ones, are under way.
template <int kPending>
__device__ __forceinline__ void Wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace favor::kernels::cuda::ahead

#endif  // FAVOR_KERNELS_CUDA_PARTS_COPIES_AHEAD_CUH_
