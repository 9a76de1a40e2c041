// The arithmetic of TensorCores (tiles.cuh) on CUDA cores, in f32, for elements of any type
// and rows of any length: tiles in shared memory are f32, and the accumulators of a warp lie as
// those of tensor cores do.
#ifndef FAVOR_KERNELS_CUDA_EXACT_SCALAR_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_SCALAR_CUH_

#include "kernels/cuda/exact/tiles.cuh"

namespace favor::kernels::cuda {

// Sums have kSumColumns_ columns: blocks share wider rows.
template <int kSumColumns_, int kWarps>
class CudaCores {
 public:
  static constexpr int kThreads = kWarps * 32, kBlocks = 1, kStages = 1;
  static constexpr bool kExists = true;
  static constexpr int kRowTiles = 1, kColumnTiles = 4, kSumTiles = kSumColumns_ / 8;
  static constexpr int kWarpRows = 16, kRows = kWarps * kWarpRows;
  static constexpr int kSumColumns = kSumColumns_;
  static constexpr int kGroupRows = kWarpRows;  // of a warp
  using Scores = float[kRowTiles][kColumnTiles][4];
  using Sums = float[kRowTiles][kSumTiles][4];
  struct Weights {};

  static __host__ __device__ int TileBytes(int rows, int columns) {
    return rows * Stride(columns) * static_cast<int>(sizeof(float));
  }
  static __host__ __device__ int ScratchBytes() {
    return kRows * kWeightStride * static_cast<int>(sizeof(float));
  }

  __device__ static int FirstRowOfGroup() { return static_cast<int>(threadIdx.x) / 32 * kWarpRows; }

  struct Tile {
    __device__ Tile(char* memory, int, int columns)
        : data(reinterpret_cast<float*>(memory)), stride(Stride(columns)) {}
    __device__ Tile After(int rows) const {
      Tile after = *this;
      after.data += rows * stride;
      return after;
    }

    float* data;
    int stride;
  };

  class Left {
   public:
    __device__ Left(const CudaCores&, const Tile& tile)
        : rows_(tile.After(threadIdx.x / 32 * kWarpRows + threadIdx.x % 32 / 4)) {}
    __device__ void Hold() {}
    // Row `half`·8 of those that this lane holds.
    __device__ const float* Row(int half) const { return rows_.data + half * 8 * rows_.stride; }
    __device__ int Columns() const { return rows_.stride - kPadding; }

   private:
    Tile rows_;
  };
  using HeldLeft = Left;

  __device__ explicit CudaCores(char* scratch)
      : weights_(reinterpret_cast<float*>(scratch) + threadIdx.x / 32 * 16 * kWeightStride) {}

  __device__ static void WaitForTiles() { WaitForCopies(); }

  template <int kCount>
  __device__ void Load(const Tile& tile, const ExactRows& rows, int64_t first) const {
    const int lane = threadIdx.x % 32, columns = tile.stride - kPadding;
    for (int row = threadIdx.x / 32; row < kCount; row += kWarps) {
      const bool exists = rows.Has(first + row);
      const int64_t from = rows.first + (first + row) * rows.row_stride;
      float* to = tile.data + row * tile.stride;
      if (rows.vectors && rows.type == DataType::kF32) {
        const float* data = static_cast<const float*>(rows.data) + (exists ? from : 0);
        for (int column = 4 * lane; column < columns; column += 4 * 32)
          CopyAsync<16>(SharedAddress(to + column), data + (exists ? column : 0), exists);
        continue;
      }
#pragma unroll 4
      for (int column = lane; column < columns; column += 32) {
        to[column] =
            exists && column < rows.columns ? LoadFloat(rows.data, rows.type, from + column) : 0.0f;
      }
    }
  }

  __device__ void StartProduct(const Left& left, const Tile& right, Scores& scores) const {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[0][n][i] = 0;
    }
    const float *row0 = left.Row(0), *row1 = left.Row(1);
    const float* column = right.data + threadIdx.x % 4 * 2 * right.stride;
    for (int k = 0; k < left.Columns(); k += 4) {
      const float4 a[2] = {Four(row0 + k), Four(row1 + k)};
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float4 b = Four(column + (n * 8 + c) * right.stride + k);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& sum = scores[0][n][2 * half + c];
            sum = fmaf(a[half].x, b.x, sum);
            sum = fmaf(a[half].y, b.y, sum);
            sum = fmaf(a[half].z, b.z, sum);
            sum = fmaf(a[half].w, b.w, sum);
          }
        }
      }
    }
  }

  template <int kPending>
  __device__ void FinishProduct(Scores&) const {}

  // Sums += weights · columns first_column … of right.
  __device__ void StartAddProduct(const Scores& weights, const Tile& right, int first_column,
                                  Sums& sums, Weights&) const {
    const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    __syncwarp();  // until no lane reads the weights before these
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights_[(row + i / 2 * 8) * kWeightStride + n * 8 + column + i % 2] = weights[0][n][i];
    }
    __syncwarp();
    const int columns = right.stride - kPadding - first_column - column;
    for (int k = 0; k < 8 * kColumnTiles; ++k) {
      const float a[2] = {weights_[row * kWeightStride + k],
                          weights_[(row + 8) * kWeightStride + k]};
      const float* from = right.data + k * right.stride + first_column + column;
#pragma unroll
      for (int n = 0; n < kSumTiles; ++n) {
        if (n * 8 >= columns) continue;
        const float2 b = *reinterpret_cast<const float2*>(from + n * 8);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          sums[0][n][2 * half] = fmaf(a[half], b.x, sums[0][n][2 * half]);
          sums[0][n][2 * half + 1] = fmaf(a[half], b.y, sums[0][n][2 * half + 1]);
        }
      }
    }
  }

  template <int kPending>
  __device__ void FinishAddProduct(Sums&, Weights&) const {}

 private:
  static constexpr int kPadding = 4;  // of a row: eight rows begin in different banks
  static constexpr int kWeightStride = 8 * kColumnTiles + kPadding;

  static __host__ __device__ int Stride(int columns) { return (columns + 3) / 4 * 4 + kPadding; }
  __device__ static float4 Four(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }

  float* weights_;  // [16, kWeightStride] of this warp
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_SCALAR_CUH_
