// Functions of one instruction.
#ifndef FAVOR_KERNELS_CUDA_PARTS_FAST_MATH_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_FAST_MATH_CUH_

namespace favor::kernels::cuda {

constexpr float kLog2E = 1.4426950408889634f;

// 2^x within two roundings, and one more for each unit of x; what is too small becomes 0.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x within a rounding.
__device__ __forceinline__ float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_FAST_MATH_CUH_
