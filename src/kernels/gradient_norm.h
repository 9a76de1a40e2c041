// |g|² of all gradients together.
#ifndef FAVOR_KERNELS_GRADIENT_NORM_H_
#define FAVOR_KERNELS_GRADIENT_NORM_H_

#include "core/tally.h"
#include "kernels/backend.h"
#include "kernels/segment.h"

namespace favor::kernels {

// Summed in double and in a fixed order.
struct GradientNormArguments {
  ConstView gradients;  // [elements]
  Segments segments;
  TallyEntry* tally;  // adds to squared_norm
};

namespace cpu {  // the double instance of its loop is the reference
void AddGradientNorm(const GradientNormArguments& a, const Context& context);
}
namespace cuda {
void AddGradientNorm(const GradientNormArguments& a, const Context& context);
}  // namespace cuda

inline void AddGradientNorm(const GradientNormArguments& a, const Context& context) {
  Run<GradientNormArguments>({.name = "gradient norm",
                              .reference = cpu::AddGradientNorm,
                              .cpu = cpu::AddGradientNorm,
                              .cuda = cuda::AddGradientNorm},
                             a.gradients, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_GRADIENT_NORM_H_
