// States of prefixes are merged feature by feature: a warp has one feature, and its threads share
// the row of sums.
#include <cmath>

#include "kernels/cuda/parts/launch.cuh"
#include "kernels/prefix_state.h"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "state";
constexpr int kWarp = 32, kThreads = 256, kFeatures = kThreads / kWarp;

struct States {
  double *tokens, *c, *z, *s, *log_decay;
};

States Pointers(const PrefixStates& states) {
  return {.tokens = states.tokens.Data<double>(),
          .c = states.c.Data<double>(),
          .z = states.z.Data<double>(),
          .s = states.s.Data<double>(),
          .log_decay = states.log_decay.Data<double>()};
}

// One axis of blocks, of kFeatures features each: the second axis of a grid is limited to 65,535.
unsigned Blocks(int64_t groups, int64_t width) {
  return static_cast<unsigned>(groups * ((width + kFeatures - 1) / kFeatures));
}

__global__ void MergeFeatures(const States later, const States states, int64_t width,
                              int64_t value_dim) {
  const int64_t tiles = (width + kFeatures - 1) / kFeatures;
  const int64_t group = blockIdx.x / tiles;
  const int64_t r = blockIdx.x % tiles * kFeatures + threadIdx.x / kWarp;
  if (r >= width) return;
  const int64_t feature = group * width + r;
  const int lane = threadIdx.x % kWarp;
  const double before = states.c[feature] + later.log_decay[group];
  const bool adds = later.tokens[group] > 0;
  const double c = adds ? max(before, later.c[feature]) : before;
  const double mine = adds ? exp(before - c) : 1;
  const double theirs = adds ? exp(later.c[feature] - c) : 0;
  __syncwarp();  // until all threads have read what the first one writes
  if (lane == 0) {
    states.c[feature] = c;
    if (adds) states.z[feature] = mine * states.z[feature] + theirs * later.z[feature];
  }
  if (!adds) return;
  for (int64_t v = lane; v < value_dim; v += kWarp) {
    const int64_t at = feature * value_dim + v;
    states.s[at] = mine * states.s[at] + theirs * later.s[at];
  }
}

// After MergeFeatures, which reads the counts of `later` only.
__global__ void MergeCounts(const States later, const States states, int64_t groups) {
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= groups) return;
  states.tokens[group] += later.tokens[group];
  states.log_decay[group] += later.log_decay[group];
}

__global__ void FillNoMaxima(double* c, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) c[i] = -INFINITY;
}

}  // namespace

void MergeStates(const MergeArguments& a, const Context& context) {
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const int64_t groups = a.states.groups(), width = a.states.c.size(1),
                value_dim = a.states.s.size(2);
  const States later = Pointers(a.later), states = Pointers(a.states);
  MergeFeatures<<<Blocks(groups, width), kThreads, 0, stream>>>(later, states, width, value_dim);
  Check(kName);
  MergeCounts<<<static_cast<unsigned>((groups + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      later, states, groups);
  Check(kName);
}

void SetToNoMaxima(const PrefixStates& states, const Context& context) {
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const int64_t count = states.c.shape().Elements();
  FillNoMaxima<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      states.c.Data<double>(), count);
  Check(kName);
}

}  // namespace favor::kernels::cuda
