// Logits lie token by token, decays head by head: a block turns a tile of them. Decays and their
// gradients are f32, logits f32 or bf16.
#include "kernels/log_decay.h"

#include <algorithm>

#include "kernels/attention_problem.h"
#include "kernels/cuda/parts/block_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "log decay";
constexpr int kRows = 64, kHeads = 32;  // of a tile
static_assert(kBlockThreads % kRows == 0);

template <class T>
struct Decays {
  const T* logits;
  int64_t row_stride, head_stride;
  int64_t rows, length;
  int heads;
  // Forward.
  float* log_decay;
  int64_t counted;  // rows whose logits are counted if they are not finite
  TallyEntry* tally;
  // Backward.
  const float* grad_log_decay;
  T* grad_logits;

  __device__ float Logit(int64_t row, int head) const {
    return ToFloat(logits[row * row_stride + head * head_stride]);
  }
};

__device__ float LogSigmoid(float x) { return x >= 0 ? -log1pf(expf(-x)) : x - log1pf(expf(x)); }

// A tile of all rows and some heads.
struct Tile {
  // Calls body(row within the tile, head): neighbouring threads have neighbouring heads.
  template <class Body>
  __device__ void ForRows(const Body& body) const {
    for (int i = threadIdx.x; i < rows * heads; i += kBlockThreads)
      body(i / heads, first_head + i % heads);
  }
  // Calls body(head, its place in [batch, heads, length]) for the row of this thread, which is
  // threadIdx.x % kRows: neighbouring threads have neighbouring rows.
  template <class Body>
  __device__ void ForHeads(int64_t head0, int64_t length, const Body& body) const {
    if (threadIdx.x % kRows >= rows) return;
    for (int head = first_head + threadIdx.x / kRows; head < first_head + heads;
         head += kBlockThreads / kRows)
      body(head, head0 + head * length);
  }

  int rows, first_head, heads;
};

// Element `row` of [batch, heads, length] at head 0.
__device__ int64_t PlaceOf(int64_t row, int64_t length, int heads) {
  const Quotient at = Divide(row, length);
  return at.quotient * heads * length + at.rest;
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) ForwardKernel(const Decays<T> a) {
  __shared__ float values[kHeads][kRows + 1];
  __shared__ int is_unusable[kRows];
  const int64_t first = int64_t{blockIdx.x} * kRows;
  const int rows = static_cast<int>(min(int64_t{kRows}, a.rows - first));
  const int own = threadIdx.x % kRows;
  const int64_t place = PlaceOf(first + own, a.length, a.heads);
  if (threadIdx.x < kRows) is_unusable[threadIdx.x] = 0;
  for (int head = 0; head < a.heads; head += kHeads) {
    const Tile tile{.rows = rows, .first_head = head, .heads = min(kHeads, a.heads - head)};
    __syncthreads();
    tile.ForRows([&](int row, int h) {
      const float logit = a.Logit(first + row, h);
      const bool finite = isfinite(logit);
      if (!finite) is_unusable[row] = 1;
      values[h - head][row] =
          finite ? fmaxf(LogSigmoid(logit), static_cast<float>(kLeastLogDecay)) : 0.0f;
    });
    __syncthreads();
    tile.ForHeads(place, a.length,
                  [&](int h, int64_t to) { a.log_decay[to] = values[h - head][own]; });
  }
  const int unusable =
      __syncthreads_count(threadIdx.x < rows && first + own < a.counted && is_unusable[own] != 0);
  if (threadIdx.x == 0 && unusable > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&a.tally->unusable), unusable);
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) BackwardKernel(const Decays<T> a) {
  __shared__ float values[kHeads][kRows + 1];
  const int64_t first = int64_t{blockIdx.x} * kRows;
  const int rows = static_cast<int>(min(int64_t{kRows}, a.rows - first));
  const int own = threadIdx.x % kRows;
  const int64_t place = PlaceOf(first + own, a.length, a.heads);
  for (int head = 0; head < a.heads; head += kHeads) {
    const Tile tile{.rows = rows, .first_head = head, .heads = min(kHeads, a.heads - head)};
    __syncthreads();
    tile.ForHeads(place, a.length,
                  [&](int h, int64_t from) { values[h - head][own] = a.grad_log_decay[from]; });
    __syncthreads();
    tile.ForRows([&](int row, int h) {
      const float logit = a.Logit(first + row, h);
      const float slope =
          LogSigmoid(logit) >= static_cast<float>(kLeastLogDecay) ? 1 / (1 + expf(logit)) : 0.0f;
      a.grad_logits[(first + row) * a.heads + h] = FromFloat<T>(values[h - head][row] * slope);
    });
  }
}

template <class T>
Decays<T> DecaysOf(const ConstView& logits, const Sequences& sequences, int64_t heads) {
  return {.logits = ElementsOf<T>(logits),
          .row_stride = logits.stride(0),
          .head_stride = logits.stride(1),
          .rows = sequences.batch * sequences.length,
          .length = sequences.length,
          .heads = static_cast<int>(heads)};
}

}  // namespace

void LogDecay(const LogDecayArguments& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.log_decay, context);
  WithElements(kName, a.logits, [&](auto element) {
    using T = decltype(element);
    Decays<T> decays = DecaysOf<T>(a.logits, a.sequences, a.log_decay.size(1));
    decays.log_decay = a.log_decay.Data<float>();
    decays.counted = a.logits.stride(0) == 0 ? 1 : a.logits.size(0);
    decays.tally = a.tally;
    if (decays.rows == 0 || decays.heads == 0) return;
    ForwardKernel<<<BlocksFor(decays.rows, kRows), kBlockThreads, 0, stream>>>(decays);
    Check(kName);
  });
}

void LogDecayBackward(const LogDecayGradients& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.grad_log_decay, context);
  WithElements(kName, a.grad_logits, [&](auto element) {
    using T = decltype(element);
    Decays<T> decays = DecaysOf<T>(a.logits, a.sequences, a.grad_logits.size(1));
    decays.grad_log_decay = a.grad_log_decay.Data<float>();
    decays.grad_logits = ElementsOf<T>(a.grad_logits);
    if (decays.rows == 0 || decays.heads == 0) return;
    BackwardKernel<<<BlocksFor(decays.rows, kRows), kBlockThreads, 0, stream>>>(decays);
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
