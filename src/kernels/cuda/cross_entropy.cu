// A row of logits belongs to a part of a warp or, if it is wide, to a block. These threads read it
// once for the largest logit and the sum of exponentials, panel by panel, and then write it from
// the last panel to the first: the last one is still in registers, and those before it were read
// most recently, so that the cache has them.
#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/parts/block_sums.cuh"
#include "kernels/cuda/parts/fast_math.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/loss_parts.h"
#include "kernels/cuda/parts/row_group.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "cross entropy";

// Packets of its row that a thread holds.
template <class T, int kCount>
constexpr int kPacketsHeld = kCount * sizeof(T) == 16 ? 4 : 8;

template <class T>
struct Scored {
  T* logits;
  const int32_t* targets;
  const float* weights;
  float grad_scale;
  double* losses;
  int64_t rows;
  uint32_t classes;
  LossPart* parts;  // [blocks]
};

// e^x for x ≤ 0, within four roundings and one for each unit of x.
__device__ float Exponential(float x) { return Exp2(kLog2E * x); }

// Combines a value of every thread of a group, the same way in all of them. `turn` begins at 0 and
// changes with each call: the memory of one call is free once all threads are in the next but one.
template <class Value, class Combine>
__device__ Value OverGroup(Value value, Value none, int& turn, const Combine& combine) {
  constexpr int kMostWarps = kMostThreads / kWarp;
  const auto over_lanes = [&](int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(~0u, value, distance));
  };
  over_lanes(min(blockDim.x, kWarp));
  if (blockDim.x <= kWarp) return value;
  __shared__ Value of_warps[2][kMostWarps];
  if (threadIdx.x % kWarp == 0) of_warps[turn][threadIdx.x / kWarp] = value;
  __syncthreads();
  const unsigned warp = threadIdx.x % kMostWarps;
  value = warp < blockDim.x / kWarp ? of_warps[turn][warp] : none;
  over_lanes(kMostWarps);
  turn ^= 1;
  return value;
}

// What a thread knows of its part of a row: the largest logit, the place of that, and the sum of
// e^(logit − largest).
struct Online {
  template <int kCount>
  __device__ void Add(const float (&logits)[kCount], uint32_t column) {
    float largest = logits[0];
#pragma unroll
    for (int c = 1; c < kCount; ++c) largest = fmaxf(largest, logits[c]);
    if (largest > most) {
      sum *= Exponential(most - largest);
      most = largest;
#pragma unroll
      for (int c = kCount - 1; c >= 0; --c) place = logits[c] == largest ? column + c : place;
    }
    const float base = most == -INFINITY ? 0.0f : most;
    float terms = 0;
#pragma unroll
    for (int c = 0; c < kCount; ++c) terms += Exponential(logits[c] - base);
    sum += terms;
  }
  // Makes it what all threads of the group know together.
  __device__ void Merge(int& turn) {
    const float own = most;
    most = OverGroup(own, -INFINITY, turn, [](float a, float b) { return fmaxf(a, b); });
    place = OverGroup(own == most ? place : UINT32_MAX, UINT32_MAX, turn,
                      [](uint32_t a, uint32_t b) { return min(a, b); });
    sum = OverGroup(sum * Exponential(own - most), 0.0f, turn,
                    [](float a, float b) { return a + b; });
  }

  float most = -INFINITY, sum = 0;
  uint32_t place = UINT32_MAX;  // the first of the largest
};

// Element i of a packet of words.
template <class T, class Word, int kWords>
__device__ float Element(const Packet<Word, kWords>& packet, int i) {
  if constexpr (std::is_same_v<Word, T>) {
    return ToFloat(packet.at[i]);
  } else if constexpr (sizeof(T) == sizeof(Word)) {
    return __uint_as_float(packet.at[i]);
  } else {  // bf16 is the upper half of f32
    const uint32_t word = packet.at[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
}

template <class T, int kCount>
__global__ void __launch_bounds__(kMostThreads, 2) ScoreRows(const Scored<T> a) {
  // Held as words if possible: the compiler would keep the two halves of a word in two registers.
  using Word = std::conditional_t<kCount * sizeof(T) % 4 == 0, uint32_t, T>;
  using Held = Packet<Word, kCount * sizeof(T) / sizeof(Word)>;
  constexpr int kPackets = kPacketsHeld<T, kCount>;
  const uint32_t panel_columns = blockDim.x * kCount * kPackets;
  const uint32_t panels = (a.classes + panel_columns - 1) / panel_columns;
  int turn = 0;
  double loss = 0, correct = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const uint32_t classes = row < a.rows ? a.classes : 0;
    T* logits = a.logits + row * a.classes;
    const uint32_t target = classes > 0 ? static_cast<uint32_t>(a.targets[row]) : 0;
    const float at_target = classes > 0 ? ToFloat(logits[target]) : 0.0f;
    Held held[kPackets];
    // Calls body(i, column) for each packet of a panel that this thread has.
    const auto for_each = [&](uint32_t panel, const auto& body) {
#pragma unroll
      for (int i = 0; i < kPackets; ++i) {
        const uint32_t column =
            panel * panel_columns + (i * blockDim.x + threadIdx.x) * static_cast<uint32_t>(kCount);
        if (column < classes) body(i, column);
      }
    };
    const auto load = [&](uint32_t panel) {
      for_each(panel, [&](int i, uint32_t column) {
        held[i] = *reinterpret_cast<const Held*>(logits + column);
      });
    };
    Online online;
    for (uint32_t panel = 0; panel < panels; ++panel) {
      load(panel);
      for_each(panel, [&](int i, uint32_t column) {
        float values[kCount];
#pragma unroll
        for (int c = 0; c < kCount; ++c) values[c] = Element<T>(held[i], c);
        online.Add(values, column);
      });
    }
    online.Merge(turn);
    __syncwarp();  // the target's logit is read before it is replaced

    const float weight = classes > 0 && a.weights != nullptr ? a.weights[target] : 1.0f;
    if (classes > 0 && threadIdx.x == 0) {
      const double of_row =
          weight * (double{logf(online.sum)} + (double{online.most} - double{at_target}));
      loss += of_row;
      correct += online.place == target ? 1 : 0;
      if (a.losses != nullptr) a.losses[row] = of_row;
    }
    if (a.grad_scale == 0) continue;
    const float grad = a.grad_scale * weight, scale = grad / online.sum;
    for (uint32_t panel = panels; panel-- > 0;) {
      if (panel + 1 < panels) load(panel);
      for_each(panel, [&](int i, uint32_t column) {
        float values[kCount];
#pragma unroll
        for (int c = 0; c < kCount; ++c)
          values[c] = scale * Exponential(Element<T>(held[i], c) - online.most);
        if (target - column < kCount) {
#pragma unroll
          for (int c = 0; c < kCount; ++c) values[c] -= target == column + c ? grad : 0.0f;
        }
        StoreFloats(values, logits + column);
      });
    }
  }
  loss = SumOfBlock(loss);
  correct = SumOfBlock(correct);
  if (threadIdx.x == 0 && threadIdx.y == 0)
    a.parts[blockIdx.x] = {.loss = loss, .correct = correct};
}

// Groups of the fewest threads that hold a row.
dim3 BlockFor(int64_t classes, int held_per_thread) {
  for (const int threads : {8, 16, kWarp}) {
    if (threads * held_per_thread >= classes) return dim3(threads, kNarrowBlock / threads);
  }
  const int64_t per_warp = int64_t{kWarp} * held_per_thread;
  const int64_t warps = (classes + per_warp - 1) / per_warp;
  return dim3(static_cast<unsigned>(std::min<int64_t>(warps * kWarp, kMostThreads)));
}

template <class T>
void Score(const CrossEntropyArguments& a, const Context& context) {
  Scored<T> scored{.logits = ElementsOf<T>(a.logits),
                   .targets = a.targets,
                   .weights = a.weights,
                   .grad_scale = static_cast<float>(a.grad_scale),
                   .losses = a.losses,
                   .rows = a.logits.size(0),
                   .classes = WidthOf(kName, a.logits)};
  if (scored.rows == 0 || scored.classes == 0) return;
  const cudaStream_t stream = StreamOf(context);
  WithRowPackets<T>(scored.classes, {scored.logits}, [&](auto count) {
    constexpr int kCount = decltype(count)::kValue;
    const dim3 block = BlockFor(scored.classes, kCount * kPacketsHeld<T, kCount>);
    const auto blocks = std::min(BlocksFor(scored.rows, block.y), unsigned{kMostLossParts});
    const DeviceScratch<LossPart> parts(context, blocks);
    scored.parts = parts.data();
    ScoreRows<T, kCount><<<blocks, block, 0, stream>>>(scored);
    Check(kName);
    AddLossParts(kName, parts.data(), blocks, scored.rows, a.tally, context);
  });
}

}  // namespace

void CrossEntropy(const CrossEntropyArguments& a, const Context& context) {
  WithElements(kName, a.logits, [&](auto element) { Score<decltype(element)>(a, context); });
}

}  // namespace favor::kernels::cuda
