// ω as the CPU kernels read it: rounded to f32, in rows that begin at cache lines.
#ifndef FAVOR_KERNELS_CPU_PACKED_OMEGA_H_
#define FAVOR_KERNELS_CPU_PACKED_OMEGA_H_

#include "core/aligned.h"
#include "kernels/omega.h"

namespace favor::kernels::cpu {

struct PackedOmega {
  explicit PackedOmega(const Omega& from);  // `from` must outlive it

  const Omega& omega;
  // If ω is dense: ω in rows of RowStep(d) and ωᵀ in rows of RowStep(m) (simd/gemm_types.h).
  AlignedVector<float> rows, columns;
};

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_PACKED_OMEGA_H_
