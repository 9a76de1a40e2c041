#include "kernels/cuda/exact/launch.cuh"
#include "kernels/cuda/exact/result.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr int kWarps = 4;  // rows of a block

// A warp merges the sums of all splits of a row, in their order.
__global__ void __launch_bounds__(32 * kWarps) MergeKernel(const __grid_constant__ ExactForward a) {
  const int64_t rows = a.problem.query_length, all = a.problem.groups * rows;
  const int64_t index = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (index >= all) return;
  const int columns = a.problem.value_dim, lane = threadIdx.x % 32;
  const int64_t stride = all * (columns + 2);  // from split to split
  const float* partial = a.partial + index * (columns + 2);
  float largest = -INFINITY;
  for (int split = 0; split < a.splits; ++split)
    largest = fmaxf(largest, partial[split * stride + columns]);
  const auto factor = [&](int split) {
    return largest == -INFINITY ? 1.0f : exp2f(partial[split * stride + columns] - largest);
  };
  float sum = 0;
  for (int split = 0; split < a.splits; ++split)
    sum += factor(split) * partial[split * stride + columns + 1];
  const ExactResult result(a, index / rows, index % rows, largest, sum);
  bool finite = true;
  for (int column = lane; column < columns; column += 32) {
    float value = 0;
    for (int split = 0; split < a.splits; ++split)
      value += factor(split) * partial[split * stride + column];
    finite &= result.Store(column, value);
  }
  finite = __all_sync(~0u, finite);
  if (lane > 0) return;
  result.StoreRow();
  AddToTally(a.problem.tally->empty, result.IsEmpty());
  AddToTally(a.problem.tally->unusable, !finite);
}

}  // namespace

void MergeExactSplits(const ExactForward& a, const Context& context) {
  const int64_t rows = a.problem.groups * a.problem.query_length;
  LaunchBlocks(MergeKernel, DivideUp(rows, kWarps), 32 * kWarps, 0, a, context);
}

}  // namespace favor::kernels::cuda
