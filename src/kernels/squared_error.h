// The loss (y − target)² of regression, and its gradient.
#ifndef FAVOR_KERNELS_SQUARED_ERROR_H_
#define FAVOR_KERNELS_SQUARED_ERROR_H_

#include "core/tally.h"
#include "kernels/backend.h"

namespace favor::kernels {

struct SquaredErrorArguments {
  const float* targets;   // [rows], in memory of the device
  double grad_scale = 0;  // ≠ 0: y is replaced by grad_scale·2·(y − target)
  View y;                 // [rows, 1]
  TallyEntry* tally;      // adds to loss and targets
};

namespace cpu {  // the double instance of its loop is the reference
void SquaredError(const SquaredErrorArguments& a, const Context& context);
}
namespace cuda {
void SquaredError(const SquaredErrorArguments& a, const Context& context);
}  // namespace cuda

inline void SquaredError(const SquaredErrorArguments& a, const Context& context) {
  Run<SquaredErrorArguments>({.name = "squared error",
                              .reference = cpu::SquaredError,
                              .cpu = cpu::SquaredError,
                              .cuda = cuda::SquaredError},
                             a.y, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_SQUARED_ERROR_H_
