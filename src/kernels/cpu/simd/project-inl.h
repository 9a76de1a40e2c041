// Rows times ω and its transpose, for the SIMD target being compiled.
#if defined(FAVOR_KERNELS_CPU_SIMD_PROJECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_PROJECT_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_PROJECT_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_PROJECT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/packed_omega.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// u[rows, m] = x[rows, d] ωᵀ. Rows of u are padded to whole vectors with zeros.
void ProjectRows(const PackedOmega& packed, const float* x, int64_t x_step, int64_t rows, float* u,
                 int64_t u_step);

// grad_x[rows, d] = grad_u[rows, m] ω.
void ProjectRowsTranspose(const PackedOmega& packed, const float* grad_u, int64_t u_step,
                          int64_t rows, float* grad_x, int64_t x_step);

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_PROJECT_INL_H_
