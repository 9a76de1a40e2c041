// Products of two rows, summed in double, for the SIMD target of the machine.
#ifndef FAVOR_KERNELS_CPU_SIMD_DOT_H_
#define FAVOR_KERNELS_CPU_SIMD_DOT_H_

#include <cstdint>

namespace favor::kernels::cpu {

// The same bits on every target.
double DotOfFloats(const float* x, const float* y, int64_t count);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_DOT_H_
