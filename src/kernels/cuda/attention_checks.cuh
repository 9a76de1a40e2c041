// Checks of inputs that a kernel asks for while it works.
#ifndef FAVOR_KERNELS_CUDA_ATTENTION_CHECKS_CUH_
#define FAVOR_KERNELS_CUDA_ATTENTION_CHECKS_CUH_

#include "kernels/attention_checks.h"

namespace favor::kernels::cuda {

// CountUnusable, if one of the flags, which are on the GPU, is not 0; else nothing is read.
void CountUnusableIf(const RangeArguments& a, const int* flags, int64_t flag_count,
                     const Context& context);

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_ATTENTION_CHECKS_CUH_
