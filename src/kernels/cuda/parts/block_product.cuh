// Products of small matrices by one thread block, in f32 on CUDA cores. Matrices are anywhere in
// memory, usually in the L2 cache, and pass through shared memory in tiles.
#ifndef FAVOR_KERNELS_CUDA_PARTS_BLOCK_PRODUCT_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_BLOCK_PRODUCT_CUH_

#include "kernels/cuda/parts/block_threads.cuh"

namespace favor::kernels::cuda {

constexpr int kTileSide = 64, kTileDepth = 16;

// c_ij = row_factor_i·column_factor_j·Σ_k depth_factor_k a_ik b_kj, plus kept_i·c_ij if it adds.
// Factors that are null are 1.
struct BlockProduct {
  const float* a;
  int a_row, a_depth;  // strides, of which one is 1
  const float* b;
  int b_column, b_depth;
  int rows, columns, depth;
  float* c;
  int c_row;
  bool adds = false;
  const float* kept = nullptr;
  const float* row_factor = nullptr;
  const float* column_factor = nullptr;
  const float* depth_factor = nullptr;
};

// Tiles with the depth as the slow axis; rows are padded so that they begin at multiples of 16
// bytes.
struct ProductTiles {
  float a[2][kTileDepth][kTileSide + 4], b[2][kTileDepth][kTileSide + 4];
};

// A thread's part of a tile of one matrix on its way to shared memory: neighbouring threads load
// neighbouring elements.
class TileLoad {
 public:
  __device__ TileLoad(const float* matrix, int side_stride, int depth_stride, int first, int side)
      : along_depth_(depth_stride == 1), tile_stride_(kTileDepth * depth_stride) {
    const int row = along_depth_ ? threadIdx.x / kTileDepth : threadIdx.x % kTileSide;
    depth_ = along_depth_ ? threadIdx.x % kTileDepth : threadIdx.x / kTileSide;
    part_stride_ = along_depth_ ? kRowStep * side_stride : kDepthStep * depth_stride;
    at_ = matrix + (first + row) * side_stride + depth_ * depth_stride;
    // Of its parts, those in rows of the matrix come first.
    const int rows_left = side - first - row;
    rows_ = along_depth_ ? (rows_left + kRowStep - 1) / kRowStep : rows_left > 0 ? kPart : 0;
  }

  // The next tile; `depth` is what is left of the matrix.
  __device__ void Load(int depth, const float* depth_factor) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      const int k = along_depth_ ? depth_ : depth_ + i * kDepthStep;
      held_[i] = i < rows_ && k < depth ? at_[i * part_stride_] : 0.0f;
      if (depth_factor != nullptr && k < depth) held_[i] *= depth_factor[k];
    }
    at_ += tile_stride_;
  }
  __device__ void Keep(float (&tile)[kTileDepth][kTileSide + 4]) const {
    if (along_depth_) {
#pragma unroll
      for (int i = 0; i < kPart; ++i)
        tile[depth_][threadIdx.x / kTileDepth + i * kRowStep] = held_[i];
    } else {
#pragma unroll
      for (int i = 0; i < kPart; ++i)
        tile[depth_ + i * kDepthStep][threadIdx.x % kTileSide] = held_[i];
    }
  }

 private:
  static constexpr int kPart = kTileSide * kTileDepth / kBlockThreads;
  static constexpr int kRowStep = kBlockThreads / kTileDepth;
  static constexpr int kDepthStep = kBlockThreads / kTileSide;

  const float* at_;
  bool along_depth_;
  int depth_, rows_, part_stride_, tile_stride_;
  float held_[kPart];
};

__device__ inline void StoreProduct(const BlockProduct& p, int row, int column, float sum) {
  if (row >= p.rows || column >= p.columns) return;
  if (p.row_factor != nullptr) sum *= p.row_factor[row];
  if (p.column_factor != nullptr) sum *= p.column_factor[column];
  float* to = p.c + row * p.c_row + column;
  if (p.adds) sum += p.kept != nullptr ? p.kept[row] * *to : *to;
  *to = sum;
}

__device__ inline void MultiplyTile(const BlockProduct& p, int first_row, int first_column,
                                    ProductTiles& tiles) {
  constexpr int kSide = 4;  // a thread has 4 × 4 elements of a tile
  const int row = threadIdx.x / (kTileSide / kSide) * kSide;
  const int column = threadIdx.x % (kTileSide / kSide) * kSide;
  TileLoad a(p.a, p.a_row, p.a_depth, first_row, p.rows);
  TileLoad b(p.b, p.b_column, p.b_depth, first_column, p.columns);
  float sums[kSide][kSide] = {};
  a.Load(p.depth, p.depth_factor);
  b.Load(p.depth, nullptr);
  int turn = 0;
  for (int begin = 0; begin < p.depth; begin += kTileDepth, turn ^= 1) {
    a.Keep(tiles.a[turn]);
    b.Keep(tiles.b[turn]);
    __syncthreads();
    const int next = begin + kTileDepth;
    if (next < p.depth) {
      a.Load(p.depth - next, p.depth_factor == nullptr ? nullptr : p.depth_factor + next);
      b.Load(p.depth - next, nullptr);
    }
#pragma unroll
    for (int k = 0; k < kTileDepth; ++k) {
      const float4 x = *reinterpret_cast<const float4*>(&tiles.a[turn][k][row]);
      const float4 y = *reinterpret_cast<const float4*>(&tiles.b[turn][k][column]);
      const float xs[kSide] = {x.x, x.y, x.z, x.w}, ys[kSide] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] += xs[i] * ys[j];
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j)
      StoreProduct(p, first_row + row + i, first_column + column + j, sums[i][j]);
  }
}

// All threads of the block take part; what they wrote before is read, and the result may be read
// when this returns.
__noinline__ __device__ inline void Multiply(const BlockProduct& p, ProductTiles& tiles) {
  __syncthreads();
  for (int row = 0; row < p.rows; row += kTileSide) {
    for (int column = 0; column < p.columns; column += kTileSide)
      MultiplyTile(p, row, column, tiles);
  }
  __syncthreads();
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_BLOCK_PRODUCT_CUH_
