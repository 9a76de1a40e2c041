// Which tiles each kernel of exact attention has, the fastest of those that were measured on an
// H200: as many rows per warp, or warps, as leave registers for two blocks or twelve warps per
// multiprocessor, and as many steps per tile as shared memory holds.
#ifndef FAVOR_KERNELS_CUDA_EXACT_ENGINES_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_ENGINES_CUH_

#include <algorithm>

#include "kernels/cuda/exact/forward.cuh"
#include "kernels/cuda/exact/gradients.cuh"
#include "kernels/cuda/exact/groups.cuh"

namespace favor::kernels::cuda {

template <class T>
void ExactForwardTensor(const ExactForward& a, const Context& context) {
  const int columns = std::max(a.problem.dim, a.problem.value_dim);
  if (HasWarpGroups()) {
    (columns <= 64    ? LaunchForward<WarpGroups<T, 64, 2, 8, 2>, 2>
     : columns <= 128 ? LaunchForward<WarpGroups<T, 128, 2, 8, 2>, 1>
                      : LaunchForward<WarpGroups<T, 256, 2, 8, 1>, 1>)(a, context);
  } else {
    (columns <= 64 ? LaunchForward<TensorCores<T, 64, 2, 8, true, 2>, 2>
                   : LaunchForward<TensorCores<T, 128, 1, 8, true, 2>, 1>)(a, context);
  }
}

template <class T>
void ExactBackwardTensor(const ExactBackward& a, const Context& context) {
  const int columns = std::max(a.problem.dim, a.problem.value_dim);
  if (HasWarpGroups()) {
    (columns <= 64    ? LaunchQueryGradients<WarpGroups<T, 64, 2, 8, 2>, 2>
     : columns <= 128 ? LaunchQueryGradients<WarpGroups<T, 128, 2, 8, 1>, 2>
                      : LaunchQueryGradients<WarpGroups<T, 256, 1, 8, 1>, 1>)(a, context);
    (columns <= 64    ? LaunchKeyGradients<WarpGroups<T, 64, 3, 8, 1>, 4>
     : columns <= 128 ? LaunchKeyGradients<WarpGroups<T, 128, 2, 8, 1>, 2>
                      : LaunchKeyGradients<WarpGroups<T, 256, 1, 8, 1, 128>, 1>)(a, context);
  } else {
    (columns <= 64 ? LaunchQueryGradients<TensorCores<T, 64, 2, 4, true, 2>, 2>
                   : LaunchQueryGradients<TensorCores<T, 128, 1, 4, false, 2>, 2>)(a, context);
    (columns <= 64 ? LaunchKeyGradients<TensorCores<T, 64, 2, 4, false, 2>, 2>
                   : LaunchKeyGradients<TensorCores<T, 128, 1, 4, false, 2>, 2>)(a, context);
  }
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_ENGINES_CUH_
