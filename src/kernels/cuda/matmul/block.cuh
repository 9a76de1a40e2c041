// What the kernels for products have in common: a thread block computes 128 × 128 elements of C, or
// one piece of their sums, and stores them.
#ifndef FAVOR_KERNELS_CUDA_MATMUL_BLOCK_CUH_
#define FAVOR_KERNELS_CUDA_MATMUL_BLOCK_CUH_

#include <cstdint>

#include "kernels/cuda/parts/elements.cuh"

namespace favor::kernels::cuda::tiles {

constexpr int kBlockSide = 128;
constexpr int kBlockThreads = 256;

// An operand: its lines are rows of A, or columns of B.
template <class T>
struct Lines {
  const T* data;
  int64_t line, term;  // strides, of the sum's terms along a line
  int64_t count;       // lines
};

// Where sums go: to c = sum + bias + addend.
template <class In, class Out>
struct Result {
  Out* data;
  int64_t row;  // stride
  int64_t rows, columns;
  const In* bias;     // null: none
  const Out* addend;  // laid out like `data`, null: none
  bool aligned;       // four neighbours may be loaded and stored at once
};

// Piece i of the sums goes to result.data + i·rows·columns.
template <class In, class Out>
struct TiledProduct {
  Lines<In> a, b;
  int64_t depth, piece;  // terms, and terms of each piece
  Result<In, Out> result;
};

// The part of a product that a thread block computes.
struct Part {
  template <class In, class Out>
  __device__ explicit Part(const TiledProduct<In, Out>& p) {
    const int64_t across = (p.result.columns + kBlockSide - 1) / kBlockSide;
    row = blockIdx.x / across * kBlockSide;
    column = blockIdx.x % across * kBlockSide;
    begin = blockIdx.y * p.piece;
    terms = min(p.depth - begin, p.piece);
  }
  int64_t row, column;  // the first ones
  int64_t begin, terms;
};

// Stores neighbouring elements of C, as far as they exist.
template <int kCount, class In, class Out>
__device__ void StoreSums(const Result<In, Out>& to, int64_t row, int64_t column,
                          float (&sums)[kCount]) {
  if (row >= to.rows || column >= to.columns) return;
  const int64_t at = row * to.row + column;
  if (to.aligned && column + kCount <= to.columns) {
    float more[kCount];
    if (to.bias != nullptr) {
      LoadFloats(to.bias + column, more);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i] += more[i];
    }
    if (to.addend != nullptr) {
      LoadFloats(to.addend + at, more);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i] += more[i];
    }
    StoreFloats(sums, to.data + at);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (column + i >= to.columns) break;
    if (to.bias != nullptr) sums[i] += ToFloat(to.bias[column + i]);
    if (to.addend != nullptr) sums[i] += ToFloat(to.addend[at + i]);
    to.data[at + i] = FromFloat<Out>(sums[i]);
  }
}

}  // namespace favor::kernels::cuda::tiles

#endif  // FAVOR_KERNELS_CUDA_MATMUL_BLOCK_CUH_
