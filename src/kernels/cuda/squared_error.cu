#include "kernels/squared_error.h"

#include <algorithm>

#include "kernels/cuda/parts/block_sums.cuh"
#include "kernels/cuda/parts/elements.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/loss_parts.h"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "squared error";

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    ScoreRows(const float* targets, double grad_scale, int64_t rows, T* y, LossPart* parts) {
  double loss = 0;
  for (int64_t row = int64_t{blockIdx.x} * kBlockThreads + threadIdx.x; row < rows;
       row += int64_t{gridDim.x} * kBlockThreads) {
    const double error = double{ToFloat(y[row])} - targets[row];
    loss += error * error;
    if (grad_scale != 0) y[row] = FromFloat<T>(static_cast<float>(2 * grad_scale * error));
  }
  loss = SumOfBlock(loss);
  if (threadIdx.x == 0) parts[blockIdx.x] = {.loss = loss, .correct = 0};
}

}  // namespace

void SquaredError(const SquaredErrorArguments& a, const Context& context) {
  const int64_t rows = a.y.size(0);
  if (rows == 0) return;
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const auto blocks = std::min(BlocksFor(rows, kBlockThreads), unsigned{kMostLossParts});
    const cudaStream_t stream = StreamOf(context);
    const DeviceScratch<LossPart> parts(context, blocks);
    ScoreRows<<<blocks, kBlockThreads, 0, stream>>>(a.targets, a.grad_scale, rows,
                                                    ElementsOf<T>(a.y), parts.data());
    Check(kName);
    AddLossParts(kName, parts.data(), blocks, rows, a.tally, context);
  });
}

}  // namespace favor::kernels::cuda
