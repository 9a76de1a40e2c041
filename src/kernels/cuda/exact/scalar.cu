#include "kernels/cuda/exact/scalar.cuh"

#include <algorithm>

#include "kernels/cuda/exact/forward.cuh"
#include "kernels/cuda/exact/gradients.cuh"

namespace favor::kernels::cuda {
namespace {

// Wide rows leave shared memory for fewer of them: 160 KiB on the smallest multiprocessor that has
// enough for rows of 256 elements.
using Narrow = CudaCores<64, 4>;
using Wide = CudaCores<128, 4>;
using WideGradients = CudaCores<128, 2>;

bool IsNarrow(const ExactProblem& problem) {
  return std::max(problem.dim, problem.value_dim) <= 64;
}

}  // namespace

void ExactForwardScalar(const ExactForward& a, const Context& context) {
  (IsNarrow(a.problem) ? LaunchForward<Narrow, 1> : LaunchForward<Wide, 1>)(a, context);
}

void ExactBackwardScalar(const ExactBackward& a, const Context& context) {
  const bool narrow = IsNarrow(a.problem);
  (narrow ? LaunchQueryGradients<Narrow, 1> : LaunchQueryGradients<WideGradients, 1>)(a, context);
  (narrow ? LaunchKeyGradients<Narrow, 1> : LaunchKeyGradients<WideGradients, 1>)(a, context);
}

}  // namespace favor::kernels::cuda
