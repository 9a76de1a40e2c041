// Operations on elements [begin, end) of their arrays: what tasks of these operations run, and
// products on each block that they have finished.
#ifndef FAVOR_KERNELS_CPU_RANGES_H_
#define FAVOR_KERNELS_CPU_RANGES_H_

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/dropout.h"

namespace favor::kernels::cpu {

void ActivateRange(const ActivationArguments& a, int64_t begin, int64_t end);
void ActivateBackwardRange(const ActivationGradients& a, int64_t begin, int64_t end);
void DropoutRange(const DropoutArguments& a, int64_t begin, int64_t end);  // f32

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_RANGES_H_
