#include "kernels/cuda/parts/loss_parts.h"

#include "kernels/cuda/parts/block_sums.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads)
    AddParts(const LossPart* parts, int64_t count, int64_t targets, TallyEntry* tally) {
  constexpr int64_t kStride = sizeof(LossPart) / sizeof(double);
  const double loss = SumOfParts(&parts->loss, count, kStride);
  const double correct = SumOfParts(&parts->correct, count, kStride);
  if (threadIdx.x > 0) return;
  tally->loss += loss;
  tally->correct += static_cast<int64_t>(correct);
  tally->targets += targets;
}

}  // namespace

void AddLossParts(const char* operation, const LossPart* parts, int64_t count, int64_t targets,
                  TallyEntry* tally, const Context& context) {
  AddParts<<<1, kBlockThreads, 0, StreamOf(context)>>>(parts, count, targets, tally);
  Check(operation);
}

}  // namespace favor::kernels::cuda
