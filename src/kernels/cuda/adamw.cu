// AdamW is memory-bound: 28 bytes per element. A first, tiny kernel reads the tally.
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/cuda/parts/block_threads.cuh"
#include "kernels/cuda/parts/elements.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/segment_walk.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "AdamW";
constexpr int kRange = 8192, kAtOnce = 2;  // elements of a block; packets that a thread loads

// What the tally says about a step.
struct Verdict {
  bool is_usable;
  float scale;  // of the gradient
};

struct Step {
  float beta1, beta2, rest1, rest2;
  float correction1, correction2;  // 1/(1 − βᵗ)
  float epsilon, rate;
  float decayed;  // factor of values that decay
  const Verdict* verdict;
  Segments segments;
  int64_t elements;
  const float* gradients;
  float *values, *first, *second;
};

__global__ void __launch_bounds__(kLanes)
    Judge(const TallyEntry* tally, int64_t entries, double clip, Verdict* verdict) {
  bool unusable = false;
  for (int64_t i = threadIdx.x; i < entries; i += kLanes) unusable |= tally[i].unusable != 0;
  unusable = __any_sync(~0u, unusable);
  if (threadIdx.x > 0) return;
  const double norm = sqrt(tally->squared_norm);
  *verdict = {.is_usable = !unusable && isfinite(tally->loss) && isfinite(tally->squared_norm),
              .scale = clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1.0f};
}

template <int kCount>
__global__ void __launch_bounds__(kBlockThreads) Update(const __grid_constant__ Step a) {
  constexpr int kStep = kBlockThreads * kCount;
  const Verdict verdict = *a.verdict;
  if (!verdict.is_usable) return;
  const int64_t begin = int64_t{blockIdx.x} * kRange, end = min(begin + kRange, a.elements);
  const int64_t own = begin + threadIdx.x * kCount;
  SegmentWalk walk(a.segments, own);
  for (int64_t from = own; from < end && walk.begin() < end; from += kAtOnce * kStep) {
    float g[kAtOnce][kCount], w[kAtOnce][kCount], m[kAtOnce][kCount], v[kAtOnce][kCount];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t at = from + j * kStep;
      if (at >= end) continue;
      LoadFloats(a.gradients + at, g[j]);
      LoadFloats(a.values + at, w[j]);
      LoadFloats(a.first + at, m[j]);
      LoadFloats(a.second + at, v[j]);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t at = from + j * kStep;
      if (at >= end) continue;
      // Elements outside segments are written as they were.
      walk.ForPacket<kCount>(at, [&](int i, bool decays) {
        const float gradient = verdict.scale * g[j][i];
        m[j][i] = a.beta1 * m[j][i] + a.rest1 * gradient;
        v[j][i] = a.beta2 * v[j][i] + a.rest2 * gradient * gradient;
        w[j][i] = (decays ? a.decayed : 1.0f) * w[j][i] -
                  a.rate * (a.correction1 * m[j][i]) / (sqrtf(a.correction2 * v[j][i]) + a.epsilon);
      });
      StoreFloats(w[j], a.values + at);
      StoreFloats(m[j], a.first + at);
      StoreFloats(v[j], a.second + at);
    }
  }
}

}  // namespace

void AdamW(const AdamWArguments& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.values, context);
  const auto t = static_cast<double>(a.step);
  Step step{.beta1 = static_cast<float>(a.beta1),
            .beta2 = static_cast<float>(a.beta2),
            // Subtracted in double: for β near 1 the difference would have few digits in float.
            .rest1 = static_cast<float>(1 - a.beta1),
            .rest2 = static_cast<float>(1 - a.beta2),
            .correction1 = static_cast<float>(1 / (1 - std::pow(a.beta1, t))),
            .correction2 = static_cast<float>(1 / (1 - std::pow(a.beta2, t))),
            .epsilon = static_cast<float>(a.epsilon),
            .rate = static_cast<float>(a.rate),
            .decayed = static_cast<float>(1 - a.rate * a.weight_decay),
            .segments = a.segments,
            .elements = a.values.size(0),
            .gradients = a.gradients.Data<float>(),
            .values = a.values.Data<float>(),
            .first = a.first.Data<float>(),
            .second = a.second.Data<float>()};
  if (step.elements == 0 || a.segments.count == 0) return;
  const DeviceScratch<Verdict> verdict(context, 1);
  step.verdict = verdict.data();
  Judge<<<1, kLanes, 0, stream>>>(a.tally, a.entries, a.clip, verdict.data());
  Check(kName);
  const bool in_packets = step.elements % 4 == 0 &&
                          AreAligned(16, {step.gradients, step.values, step.first, step.second});
  const auto kernel = in_packets ? Update<4> : Update<1>;
  kernel<<<BlocksFor(step.elements, kRange), kBlockThreads, 0, stream>>>(step);
  Check(kName);
}

}  // namespace favor::kernels::cuda
