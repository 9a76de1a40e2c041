// Gradients of ℓ: ℓ of a row acts between the keys before it and the queries from it on. From row
// to row a key joins the former and a query leaves the latter.
#include "kernels/cuda/linear/call.cuh"
#include "kernels/cuda/parts/block_threads.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";

// Few blocks, and little work that waits long for memory: as many threads as a block can have.
constexpr int kThreads = 1024, kWarpsOfBlock = kThreads / kLanes;

struct DecayArguments {
  Cut cut;
  SegmentStates keys, queries;
  const float *of_queries, *of_keys;  // [groups, length]
};

// The sum of `value` over the threads of the block before this one, in order; `total` becomes that
// of all.
__device__ double SumBefore(double value, double& total) {
  __shared__ double sums[kWarpsOfBlock];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  double inclusive = value;
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const double below = __shfl_up_sync(~0u, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  __syncthreads();
  if (lane == kLanes - 1) sums[warp] = inclusive;
  __syncthreads();
  double before = 0;
  total = 0;
  for (int i = 0; i < kWarpsOfBlock; ++i) {
    if (i == warp) before = total;
    total += sums[i];
  }
  return before + inclusive - value;
}

// The gradient of a number added to the logarithm of what each query of `queries` sees of each key
// of `keys`.
__device__ double Between(const Call& a, const SegmentStates& keys, int64_t of_keys,
                          const SegmentStates& queries, int64_t of_queries) {
  const int width = a.map.width, dv = a.value_dim, lane = threadIdx.x % kLanes;
  double sum = 0;
#pragma unroll 4
  for (int r = threadIdx.x / kLanes; r < width; r += kWarpsOfBlock) {
    const int64_t key = of_keys * width + r, query = of_queries * width + r;
    const double c = double{keys.c[key]} + queries.c[query];
    // Nothing here waits for c.
    double products = lane == 0 ? double{keys.z[key]} * queries.z[query] : 0.0;
    for (int v = lane; v < dv; v += kLanes)
      products += double{keys.s[key * dv + v]} * queries.s[query * dv + v];
    sum += c > -INFINITY ? exp(c) * products : 0.0;
  }
  double total;
  SumBefore(sum, total);
  return total;
}

__global__ void __launch_bounds__(kThreads)
    DecayKernel(const __grid_constant__ Call a, const __grid_constant__ DecayArguments arguments) {
  const Cut& cut = arguments.cut;
  const int64_t item = blockIdx.x, index = item / cut.segments, segment = item % cut.segments;
  const int64_t begin = segment * cut.rows, end = min(begin + cut.rows, a.key_length);
  const Head head(a, index);
  double gradient =
      segment == 0 ? 0 : Between(a, arguments.keys, item, arguments.queries, item - 1);
  int unusable = 0;
  for (int64_t first = begin; first < end; first += kThreads) {
    const int64_t row = first + threadIdx.x, at = index * a.key_length + row;
    const double change =
        row < end ? double{arguments.of_keys[at]} - arguments.of_queries[at] : 0.0;
    double total;
    const double own = gradient + SumBefore(change, total);
    gradient += total;
    if (row >= end) continue;
    const bool exists =
        a.mask.data == nullptr || a.mask.Load(a.mask.At(head.batch, head.kv_head, row)) != 0;
    a.grad_log_decay.Store(a.grad_log_decay.At(head.batch, head.head, row), exists ? own : 0);
    unusable += isfinite(own) ? 0 : 1;
  }
  AddToTally(&a.tally->unusable, unusable);
}

}  // namespace

void DecayGradients(const Call& a, const Cut& cut, const SegmentStates& keys,
                    const SegmentStates& queries, const float* of_queries, const float* of_keys,
                    const Context& context) {
  DecayKernel<<<static_cast<unsigned>(a.groups * cut.segments), kThreads, 0,
                static_cast<cudaStream_t>(UseStream(context))>>>(
      a,
      {.cut = cut, .keys = keys, .queries = queries, .of_queries = of_queries, .of_keys = of_keys});
  Check(kName);
}

}  // namespace favor::kernels::cuda::general
