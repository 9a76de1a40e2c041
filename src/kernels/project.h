// Projection of rows on ω and its transpose, for gradients:
//   Project:           u = x ωᵀ         [rows, d] → [rows, m]
//   ProjectTranspose:  grad_x = grad_u ω  [rows, m] → [rows, d]
// A structured ω costs O(m log d) per row instead of O(m d).
#ifndef FAVOR_KERNELS_PROJECT_H_
#define FAVOR_KERNELS_PROJECT_H_

#include <cstdint>
#include <vector>

#include "favor/context.h"
#include "kernels/cpu/packed_omega.h"
#include "kernels/omega.h"

namespace favor::kernels {

// By the definition of each factor, in double: O(d²) per stage.
namespace reference {
void Project(const Omega& omega, const double* x, int64_t rows, double* u);
void ProjectTranspose(const Omega& omega, const double* grad_u, int64_t rows, double* grad_x);
// ω written out, [m, d].
std::vector<double> DenseRows(const Omega& omega);
}  // namespace reference

namespace cpu {
void Project(const PackedOmega& packed, const float* x, int64_t rows, const Context& context,
             float* u);
void ProjectTranspose(const PackedOmega& packed, const float* grad_u, int64_t rows,
                      const Context& context, float* grad_x);
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_PROJECT_H_
