// Sums of squares over ranges of the array, one for each block, then over ranges.
#include "kernels/gradient_norm.h"

#include "kernels/cuda/parts/block_sums.cuh"
#include "kernels/cuda/parts/elements.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/segment_walk.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "gradient norm";
constexpr int kRange = 16384, kAtOnce = 4;  // elements of a range; packets that a thread loads

struct Squares {
  const float* gradients;
  Segments segments;
  int64_t elements;
  double* parts;  // [ranges]
};

template <int kCount>
__global__ void __launch_bounds__(kBlockThreads) SumRanges(const Squares a) {
  constexpr int kStep = kBlockThreads * kCount * kAtOnce;
  const int64_t begin = int64_t{blockIdx.x} * kRange, end = min(begin + kRange, a.elements);
  const int64_t own = begin + threadIdx.x * kCount;
  SegmentWalk walk(a.segments, own);
  double sum = 0;
  for (int64_t first = own; first < end && walk.begin() < end; first += kStep) {
    float values[kAtOnce][kCount];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t at = first + j * kBlockThreads * kCount;
      if (at < end) LoadFloats(a.gradients + at, values[j]);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t at = first + j * kBlockThreads * kCount;
      if (at >= end) continue;
      walk.ForPacket<kCount>(at, [&](int i, bool) {
        const double value = values[j][i];
        sum += value * value;
      });
    }
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) a.parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlockThreads)
    AddRanges(const double* parts, int64_t count, TallyEntry* tally) {
  const double sum = SumOfParts(parts, count, /*stride=*/1);
  if (threadIdx.x == 0) tally->squared_norm += sum;
}

}  // namespace

void AddGradientNorm(const GradientNormArguments& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.gradients, context);
  Squares squares{.gradients = a.gradients.Data<float>(),
                  .segments = a.segments,
                  .elements = a.gradients.size(0)};
  if (squares.elements == 0 || a.segments.count == 0) return;
  const unsigned ranges = BlocksFor(squares.elements, kRange);
  const DeviceScratch<double> parts(context, ranges);
  squares.parts = parts.data();
  const bool in_packets = squares.elements % 4 == 0 && AreAligned(16, {squares.gradients});
  const auto kernel = in_packets ? SumRanges<4> : SumRanges<1>;
  kernel<<<ranges, kBlockThreads, 0, stream>>>(squares);
  Check(kName);
  AddRanges<<<1, kBlockThreads, 0, stream>>>(parts.data(), ranges, a.tally);
  Check(kName);
}

}  // namespace favor::kernels::cuda
