// What centring keys adds to gradients (centring_gradients.h).
#include <algorithm>

#include "kernels/cuda/linear/call.cuh"
#include "kernels/cuda/parts/block_threads.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";
constexpr int64_t kSliceRows = 256, kMostSlices = 128;

// Pieces of work are slices of the rows of each key head.
struct Centring {
  int64_t slices;
  bool own_mean;
  double* sums;  // [batch · kv_heads, slices, dim + 1]: of the gradient of the mean, and keys
};

__device__ int64_t SliceBegin(int64_t length, int64_t slices, int64_t slice) {
  return min(length, (length + slices - 1) / slices * slice);
}

// Unnormalised sums carry exp(scale·q·mean): the gradients of a slice of queries, and what they add
// to that of the mean. Warps have rows, and sums of their own.
__device__ void AddToQueries(const Call& a, const Centring& centring, int64_t group, int64_t slice,
                             double (*sums)[kMostColumns]) {
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int64_t batch = group / a.heads, head = group % a.heads;
  const int64_t mean = a.key_mean.At(batch, head, 0);
  const int64_t end = SliceBegin(a.query_length, centring.slices, slice + 1);
  for (int64_t row = SliceBegin(a.query_length, centring.slices, slice) + warp; row < end;
       row += kWarps) {
    const int64_t out = a.out.At(batch, head, row), grad_out = a.grad_out.At(batch, head, row),
                  q = a.q.At(batch, head, row), grad_q = a.grad_q.At(batch, head, row);
    double dot = 0;
    for (int v = lane; v < a.value_dim; v += kLanes)
      dot += a.out.Load(out + v * a.out.column) * a.grad_out.Load(grad_out + v * a.grad_out.column);
    dot = a.scale * SumOfWarp(dot);
    for (int i = lane; i < a.dim; i += kLanes) {
      sums[warp][i] += dot * a.q.Load(q + i * a.q.column);
      if (a.grad_q.data == nullptr) continue;
      const int64_t at = grad_q + i * a.grad_q.column;
      a.grad_q.Store(at, a.grad_q.Load(at) + dot * a.key_mean.Load(mean + i * a.key_mean.row));
    }
  }
}

__device__ bool Exists(const Call& a, int64_t batch, int64_t kv_head, int64_t row) {
  return a.mask.data == nullptr || a.mask.Load(a.mask.At(batch, kv_head, row)) != 0;
}

__global__ void __launch_bounds__(kBlockThreads)
    SumCentring(const __grid_constant__ Call a, const Centring centring) {
  __shared__ double sums[kWarps][kMostColumns], counts[kWarps];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int64_t index = blockIdx.x / centring.slices, slice = blockIdx.x % centring.slices;
  for (int i = lane; i < a.dim; i += kLanes) sums[warp][i] = 0;
  __syncwarp();
  for (int64_t turn = 0; !a.normalize && turn < a.sharing; ++turn)
    AddToQueries(a, centring, index * a.sharing + turn, slice, sums);
  if (!centring.own_mean) return;
  const int64_t kv_heads = a.heads / a.sharing, batch = index / kv_heads,
                kv_head = index % kv_heads;
  const int64_t end = SliceBegin(a.key_length, centring.slices, slice + 1);
  double count = 0;
  for (int64_t row = SliceBegin(a.key_length, centring.slices, slice) + warp; row < end;
       row += kWarps) {
    if (!Exists(a, batch, kv_head, row)) continue;
    count += 1;
    const int64_t at = a.grad_k.At(batch, kv_head, row);
    for (int i = lane; i < a.dim; i += kLanes)
      sums[warp][i] -= a.grad_k.Load(at + i * a.grad_k.column);
  }
  if (lane == 0) counts[warp] = count;
  __syncthreads();
  double* to = centring.sums + blockIdx.x * int64_t{a.dim + 1};
  for (int i = threadIdx.x; i <= a.dim; i += kBlockThreads) {
    double total = 0;
    for (int w = 0; w < kWarps; ++w) total += i < a.dim ? sums[w][i] : counts[w];
    to[i] = total;
  }
}

// A mean of the call's own keys depends on every key.
__global__ void __launch_bounds__(kBlockThreads)
    AddToKeys(const __grid_constant__ Call a, const Centring centring) {
  __shared__ double totals[kMostColumns + 1];
  const int64_t index = blockIdx.x / centring.slices, slice = blockIdx.x % centring.slices;
  for (int i = threadIdx.x; i <= a.dim; i += kBlockThreads) {
    double total = 0;
    for (int64_t s = 0; s < centring.slices; ++s)
      total += centring.sums[(index * centring.slices + s) * (a.dim + 1) + i];
    totals[i] = total;
  }
  __syncthreads();
  const int64_t kv_heads = a.heads / a.sharing, batch = index / kv_heads,
                kv_head = index % kv_heads;
  const int64_t end = SliceBegin(a.key_length, centring.slices, slice + 1);
  for (int64_t row = SliceBegin(a.key_length, centring.slices, slice) + threadIdx.x / kLanes;
       row < end; row += kWarps) {
    if (!Exists(a, batch, kv_head, row)) continue;
    const int64_t first = a.grad_k.At(batch, kv_head, row);
    for (int i = threadIdx.x % kLanes; i < a.dim; i += kLanes) {
      const int64_t at = first + i * a.grad_k.column;
      a.grad_k.Store(at, a.grad_k.Load(at) + totals[i] / totals[a.dim]);
    }
  }
}

}  // namespace

void CentringGradients(const LinearGradients& a, const Context& context) {
  const Call call = CallOf(a, /*turn=*/0, context);
  const bool own_mean = a.own_mean && call.grad_k.data != nullptr;
  if (call.normalize && !own_mean) return;
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const int64_t length = std::max(call.query_length, call.key_length);
  const int64_t slices =
      std::clamp<int64_t>((length + kSliceRows - 1) / kSliceRows, 1, kMostSlices);
  const auto blocks = static_cast<unsigned>(call.groups * slices);
  const DeviceScratch<double> sums(context, call.groups * slices * (call.dim + 1));
  const Centring centring{.slices = slices, .own_mean = own_mean, .sums = sums.data()};
  SumCentring<<<blocks, kBlockThreads, 0, stream>>>(call, centring);
  Check(kName);
  if (!own_mean) return;
  AddToKeys<<<blocks, kBlockThreads, 0, stream>>>(call, centring);
  Check(kName);
}

}  // namespace favor::kernels::cuda::general
