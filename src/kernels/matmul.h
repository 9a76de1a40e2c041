// Products of matrices in memory: what layers are made of.
#ifndef FAVOR_KERNELS_MATMUL_H_
#define FAVOR_KERNELS_MATMUL_H_

#include <string>
#include <variant>

#include "kernels/activation.h"
#include "kernels/backend.h"
#include "kernels/dropout.h"

namespace favor::kernels {

// An operation on the result C of a product, run on each block of it while that is in the cache.
// Its x (of ActivationGradients: grad_y) is C, its other arrays are laid out like C, without gaps.
using MatmulEpilogue =
    std::variant<std::monostate, ActivationArguments, ActivationGradients, DropoutArguments>;

// C = A·B, C += A·B with `add`, or C = A·B + bias in every row. A is [rows, depth], B [depth,
// columns], C [rows, columns] with contiguous rows, the bias [columns]; A and B may be transposed
// views. C must not overlap the others.
struct MatmulArguments {
  ConstView a, b;
  View c;
  bool add = false;
  ConstView bias{};  // empty: no bias; not allowed with `add`
  MatmulEpilogue then{};
};

// The sizes of a product and what follows it: "1024 × 64 × 512 + bias, activation".
std::string Describe(const MatmulArguments& arguments);

namespace reference {
void Matmul(const MatmulArguments& arguments, const Context& context);  // f64
}
namespace cpu {
void Matmul(const MatmulArguments& arguments, const Context& context);  // f32
}
namespace cuda {
// f32 or bf16; C is f32 if the others are bf16, or of their type, which is also that of the bias.
void Matmul(const MatmulArguments& arguments, const Context& context);
}  // namespace cuda

inline void Matmul(const MatmulArguments& arguments, const Context& context) {
  Run<MatmulArguments>({.name = "matmul",
                        .reference = reference::Matmul,
                        .cpu = cpu::Matmul,
                        .cuda = cuda::Matmul,
                        .describe = Describe},
                       arguments.c, arguments, context);
}

// [rows, columns] seen as [columns, rows].
inline ConstView Transposed(const ConstView& matrix) {
  return {matrix.data(),
          matrix.type(),
          {matrix.size(1), matrix.size(0)},
          {matrix.stride(1), matrix.stride(0)},
          matrix.device()};
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_MATMUL_H_
