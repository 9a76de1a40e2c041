// Sums over chunks of the rows of a sequence, then over chunks, in order.
#include "kernels/mean_pool.h"

#include "kernels/cuda/parts/block_sums.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "mean pool";
constexpr int kChunkRows = 128, kShares = kBlockThreads / kLanes;  // shares of the rows of a chunk

// Of one sequence: 1/(its existing tokens), or 0 if there are none, in every thread of a block.
__device__ double WeightOf(const float* mask, int64_t length) {
  if (mask == nullptr) return 1.0 / static_cast<double>(length);
  double exist = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.y * kLanes + threadIdx.x; i < length; i += kBlockThreads)
    exist += mask[i];
  exist = SumOfBlock(exist);
  return exist > 0 ? 1 / exist : 0.0;
}

template <class T>
struct Chunks {
  const T* x;
  const float* mask;
  int64_t length, chunks, width;
  float* parts;  // [batch, chunks, width]
};

template <class T, int kCount>
__global__ void __launch_bounds__(kBlockThreads) SumChunks(const Chunks<T> a) {
  __shared__ float of_shares[kShares][kLanes * kCount];
  const Quotient part = Divide(blockIdx.x, a.chunks);
  const int64_t sequence = part.quotient, first = part.rest * kChunkRows;
  const int64_t end = min(first + kChunkRows, a.length);
  const T* x = a.x + sequence * a.length * a.width;
  const float* mask = a.mask == nullptr ? nullptr : a.mask + sequence * a.length;
  const int64_t tile = int64_t{blockIdx.y} * kLanes * kCount, column = tile + threadIdx.x * kCount;
  float sums[kCount] = {};
  if (column < a.width) {
#pragma unroll 4
    for (int64_t row = first + threadIdx.y; row < end; row += kShares) {
      const float weight = mask == nullptr ? 1.0f : mask[row];
      if (weight == 0) continue;
      float values[kCount];
      LoadFloats(x + row * a.width + column, values);
#pragma unroll
      for (int c = 0; c < kCount; ++c) sums[c] += weight * values[c];
    }
  }
#pragma unroll
  for (int c = 0; c < kCount; ++c) of_shares[threadIdx.y][threadIdx.x * kCount + c] = sums[c];
  __syncthreads();
  for (int i = threadIdx.y * kLanes + threadIdx.x; i < kLanes * kCount; i += kBlockThreads) {
    float sum = 0;
    for (int share = 0; share < kShares; ++share) sum += of_shares[share][i];
    if (tile + i < a.width) a.parts[int64_t{blockIdx.x} * a.width + tile + i] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) AddChunks(const Chunks<T> a, T* y) {
  __shared__ double of_shares[kShares][kLanes];
  const int64_t sequence = blockIdx.x, column = int64_t{blockIdx.y} * kLanes + threadIdx.x;
  const double weight =
      WeightOf(a.mask == nullptr ? nullptr : a.mask + sequence * a.length, a.length);
  const float* parts = a.parts + sequence * a.chunks * a.width;
  double sum = 0;
  if (column < a.width) {
#pragma unroll 4
    for (int64_t chunk = threadIdx.y; chunk < a.chunks; chunk += kShares)
      sum += parts[chunk * a.width + column];
  }
  of_shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= a.width) return;
  for (int share = 1; share < kShares; ++share) sum += of_shares[share][threadIdx.x];
  y[sequence * a.width + column] = FromFloat<T>(static_cast<float>(weight * sum));
}

__global__ void __launch_bounds__(kBlockThreads)
    FindWeights(const float* mask, int64_t length, float* weights) {
  const double weight = WeightOf(mask == nullptr ? nullptr : mask + blockIdx.x * length, length);
  if (threadIdx.x == 0 && threadIdx.y == 0) weights[blockIdx.x] = static_cast<float>(weight);
}

template <class T>
struct Gradients {
  const T* grad_y;
  const float *mask, *weights;  // weights [batch]
  int64_t rows, length, width;
  T* grad_x;
};

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads) BackwardKernel(const Gradients<T> a) {
  ForEachRow(a.rows, [&](int64_t row) {
    const int64_t sequence = Divide(row, a.length).quotient;
    const float weight =
        a.mask == nullptr ? a.weights[sequence] : a.mask[row] * a.weights[sequence];
    for (int64_t column = threadIdx.x * kCount; column < a.width; column += blockDim.x * kCount) {
      float values[kCount];
      LoadFloats(a.grad_y + sequence * a.width + column, values);
#pragma unroll
      for (int c = 0; c < kCount; ++c) values[c] *= weight;
      StoreFloats(values, a.grad_x + row * a.width + column);
    }
  });
}

}  // namespace

void MeanPool(const MeanPoolArguments& a, const Context& context) {
  const int64_t batch = a.sequences.batch, width = a.y.size(1);
  if (batch == 0 || width == 0) return;
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const cudaStream_t stream = StreamOf(context);
    Chunks<T> chunks{.x = ElementsOf<T>(a.x),
                     .mask = ElementsOf<float>(a.sequences.mask),
                     .length = a.sequences.length,
                     .chunks = (a.sequences.length + kChunkRows - 1) / kChunkRows,
                     .width = width};
    const int64_t parts = batch * chunks.chunks;
    const DeviceScratch<float> scratch(context, parts * width);
    chunks.parts = scratch.data();
    const dim3 block(kLanes, kShares);
    WithRowPackets<T>(width, {chunks.x}, [&](auto count) {
      constexpr int kCount = decltype(count)::kValue;
      const dim3 grid(BlocksFor(parts, 1), BlocksFor(width, kLanes * kCount));
      SumChunks<T, kCount><<<grid, block, 0, stream>>>(chunks);
    });
    Check(kName);
    const dim3 grid(BlocksFor(batch, 1), BlocksFor(width, kLanes));
    AddChunks<<<grid, block, 0, stream>>>(chunks, ElementsOf<T>(a.y));
    Check(kName);
  });
}

void MeanPoolBackward(const MeanPoolGradients& a, const Context& context) {
  const int64_t rows = a.grad_x.size(0), width = a.grad_x.size(1);
  if (rows == 0 || width == 0) return;
  WithElements(kName, a.grad_x, [&](auto element) {
    using T = decltype(element);
    const cudaStream_t stream = StreamOf(context);
    const DeviceScratch<float> weights(context, a.sequences.batch);
    const Gradients<T> gradients{.grad_y = ElementsOf<T>(a.grad_y),
                                 .mask = ElementsOf<float>(a.sequences.mask),
                                 .weights = weights.data(),
                                 .rows = rows,
                                 .length = a.sequences.length,
                                 .width = width,
                                 .grad_x = ElementsOf<T>(a.grad_x)};
    FindWeights<<<BlocksFor(a.sequences.batch, 1), dim3(kLanes, kShares), 0, stream>>>(
        gradients.mask, gradients.length, weights.data());
    Check(kName);
    WithRowPackets<T>(width, {gradients.grad_y, gradients.grad_x}, [&](auto count) {
      constexpr int kCount = decltype(count)::kValue;
      const dim3 block = BlockOverRows(width / kCount);
      BackwardKernel<T, kCount><<<BlocksFor(rows, block.y), block, 0, stream>>>(gradients);
    });
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
