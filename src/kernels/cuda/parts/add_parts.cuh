// The second step of sums over many rows: each block has summed its rows, and the parts are added
// in an order that is always the same.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ADD_PARTS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ADD_PARTS_CUH_

#include <cstdint>

#include "kernels/cuda/parts/elements.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {

constexpr int kColumnsOfParts = 32;  // columns of a block
constexpr int kShares = 32;          // threads that share the parts of a column

// first[i] += Σ parts[·][i], and second[i] += Σ parts[·][width + i] if there is a second array.
template <class T>
struct PartSums {
  const float* parts;  // [count, width], or [count, 2, width]
  int64_t count, width;
  T *first, *second = nullptr;
};

template <class T>
__global__ void __launch_bounds__(kColumnsOfParts* kShares) AddPartsKernel(const PartSums<T> a) {
  __shared__ double shares[kShares][kColumnsOfParts];
  const int64_t columns = a.second == nullptr ? a.width : 2 * a.width;
  const int64_t column = int64_t{blockIdx.x} * kColumnsOfParts + threadIdx.x;
  double sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < a.count; part += kShares)
      sum += a.parts[part * columns + column];
  }
  shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int share = 1; share < kShares; ++share) sum += shares[share][threadIdx.x];
  T* to = column < a.width ? a.first + column : a.second + (column - a.width);
  *to = FromFloat<T>(ToFloat(*to) + static_cast<float>(sum));
}

template <class T>
void AddParts(const char* operation, const PartSums<T>& a, const Context& context) {
  const int64_t columns = a.second == nullptr ? a.width : 2 * a.width;
  AddPartsKernel<<<BlocksFor(columns, kColumnsOfParts), dim3(kColumnsOfParts, kShares), 0,
                   StreamOf(context)>>>(a);
  Check(operation);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ADD_PARTS_CUH_
