// What the tokens of a call forget, as the fused kernels read it: sums within chunks, and those of
// segments. A warp has a chunk, two rows to a lane.
#include "kernels/cuda/fused/call.h"
#include "kernels/cuda/fused/rows.cuh"
#include "kernels/cuda/parts/block_threads.cuh"

namespace favor::kernels::cuda::fused {
namespace {

constexpr int kThreads = 1024, kWarpsOfBlock = kThreads / kLanes;
// e^ℓ of a smaller ℓ is 0 next to anything that floats hold. Sums of them keep their digits.
constexpr double kLeastStep = -4096;

// `sums` is Call::decay, `of_segments` Call::log_decay.
__global__ void __launch_bounds__(kThreads)
    DecayKernel(const __grid_constant__ general::Call a, Cut cut, float* sums, float* of_segments) {
  __shared__ double totals[kWarpsOfBlock];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int64_t index = blockIdx.x / cut.segments;
  const general::Head head(a, index);
  const int64_t begin = blockIdx.x % cut.segments * cut.rows,
                end = min(begin + cut.rows, a.key_length);
  const auto step_of = [&](int64_t row) {
    if (row >= end) return 0.0;
    const bool exists =
        a.mask.data == nullptr || a.mask.Load(a.mask.At(head.batch, head.kv_head, row)) != 0;
    return exists ? a.log_decay.Load(a.log_decay.At(head.batch, head.head, row)) : 0.0;
  };
  double total = 0;
  for (int64_t chunk = begin + warp * kTile; chunk < end; chunk += kWarpsOfBlock * kTile) {
    const int64_t row = chunk + 2 * lane;
    const double first = step_of(row), second = step_of(row + 1);
    total += first + second;
    const double steps[2] = {fmax(first * kLog2E, kLeastStep), fmax(second * kLog2E, kLeastStep)};
    double sum = steps[0] + steps[1];  // up to the second row of the lane
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const double below = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance) sum += below;
    }
    float* to = sums + index * a.key_length + row;
    if (row < end) to[0] = static_cast<float>(sum - steps[1]);
    if (row + 1 < end) to[1] = static_cast<float>(sum);
  }
  total = SumOfWarp(total);
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double of_segment = 0;
  for (const double of_warp : totals) of_segment += of_warp;
  of_segments[blockIdx.x] = static_cast<float>(of_segment);
}

}  // namespace

Decay::Decay(const Context& context, const general::Call& a, const Cut& cut,
             const SegmentStates& states)
    : memory_(context, a.groups * a.key_length) {
  DecayKernel<<<static_cast<unsigned>(a.groups * cut.segments), kThreads, 0, StreamOf(context)>>>(
      a, cut, memory_.data(), states.log_decay);
  Check("linear attention");
}

}  // namespace favor::kernels::cuda::fused
