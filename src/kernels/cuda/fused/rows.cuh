// What the fused kernels of linear attention share: tiles of rows from and to global memory, ω in
// shared memory, and feature values. Exponents are logarithms to base 2 here.
#ifndef FAVOR_KERNELS_CUDA_FUSED_ROWS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_ROWS_CUH_

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "core/host_device.h"
#include "kernels/cuda/fused/linear.cuh"
#include "kernels/cuda/parts/fast_math.cuh"
#include "kernels/cuda/parts/tensor_tiles.cuh"
#include "kernels/maps/relu.h"

namespace favor::kernels::cuda::fused {

// Blocks of 64 features, if rows take `tiles` tiles.
FAVOR_HOST_DEVICE constexpr int MostBlocks(int tiles) { return 4 / tiles; }
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_huge_valf(), kNan = __builtin_nanf("");
// A causal row whose denominator is less has lost digits to keys behind it; so has a pair of a
// query and a key whose exponent, relative to a maximum of the chunk, is more.
// A running maximum moves only if it would grow by more than this: weights are at most 2⁸, and
// sums are seldom scaled.
constexpr float kSlack = 8;
constexpr float kLeastDenominator = 0x1p-60f, kMostExponent = 60;

__device__ __forceinline__ float Log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Features whose factor is 1 and whose exponent is u.
struct Exponential {
  static constexpr bool kFlat = false;
};
// Features without an exponent.
template <class Map>
struct Flat {
  static constexpr bool kFlat = true;
  __device__ static float Value(float u, float epsilon) { return Map::Factor(u, 0, epsilon); }
  __device__ static float Slope(float u, float epsilon) { return Map::FactorSlope(u, 0, epsilon); }
};

// Over the four threads that share a row of accumulators.
__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Row and column of an accumulator, in a tile.
__device__ __forceinline__ int RowOf(int i) {
  return ((threadIdx.x >> 5) & 3) * 16 + (threadIdx.x & 31) / 4 + (i / 2) * 8;
}
__device__ __forceinline__ int ColumnOf(int b, int i) {
  return 8 * b + (threadIdx.x & 3) * 2 + (i & 1);
}
// Entries of a table in shared memory for the columns of a block.
__device__ __forceinline__ float2 PairAt(const float* table, int b) {
  return *reinterpret_cast<const float2*>(table + 8 * b + (threadIdx.x & 3) * 2);
}

__device__ __forceinline__ void Scale(Accumulators& x, const float (&factor)[2]) {
#pragma unroll
  for (int b = 0; b < 8; ++b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[b][i] *= factor[i / 2];
  }
}

// Turns products into exponents, x·scale + bias of the column, and moves the maxima of the rows if
// they grow: `base` is what is to be subtracted, `factor` what earlier sums are to be scaled by.
// Returns whether a row of this warp moved.
__device__ __forceinline__ bool MoveMaximum(Accumulators& x, float scale, const float* bias,
                                            float (&maximum)[2], float (&base)[2],
                                            float (&factor)[2]) {
  float largest[2] = {-kInfinity, -kInfinity};
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const float2 more = PairAt(bias, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[b][i] = fmaf(x[b][i], scale, i & 1 ? more.y : more.x);
      largest[i / 2] = fmaxf(largest[i / 2], x[b][i]);
    }
  }
  bool moves = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float now = QuadMax(largest[half]);
    const bool grows = now > maximum[half] + kSlack;
    const float before = maximum[half];
    maximum[half] = grows ? now : before;
    base[half] = maximum[half] == -kInfinity ? 0.0f : maximum[half];
    factor[half] = Exp2(before - base[half]);
    moves |= grows;
  }
  return __any_sync(0xffffffffu, moves);
}

// Which part of a call a thread block works on.
struct Place {
  __device__ Place(const Call& a, int group_)
      : group(group_),
        batch(group_ / a.heads),
        head(group_ % a.heads),
        kv_head(head / (a.heads / a.kv_heads)),
        entry(a.entries == 1 ? 0 : head),
        log_normalizer(a.log_normalizer[entry]) {}

  // The first row of the head.
  __device__ void* OfQueries(const Rows& rows) const { return At(rows, head); }
  __device__ void* OfKeys(const Rows& rows) const { return At(rows, kv_head); }
  __device__ const float* Mask(const Call& a) const {
    return a.mask == nullptr ? nullptr : a.mask + batch * a.mask_batch + kv_head * a.mask_head;
  }

  int group, batch, head, kv_head, entry;
  float log_normalizer;

 private:
  __device__ void* At(const Rows& rows, int of) const {
    const int64_t elements = batch * rows.batch + of * rows.head;
    return static_cast<char*>(rows.data) + elements * (rows.f32 ? 4 : 2);
  }
};

// The rows of one head, those that the mask leaves.
struct HeadOfRows {
  const void* data;  // bf16
  int64_t stride;
  int columns;
  int length;
  const float* mask;  // or null
  int64_t mask_stride;

  __device__ __forceinline__ bool Exists(int row) const {
    return row < length && (mask == nullptr || mask[row * mask_stride] != 0.0f);
  }
};

// Rows of up to 64·kTiles columns are kTiles tiles that follow each other. Copies such rows with
// kThreads threads; what does not exist becomes 0. Each thread has one piece of every (kThreads /
// 8)th row of each tile.
template <int kTiles, int kThreads>
class TileCopier {
 public:
  __device__ __forceinline__ TileCopier(const HeadOfRows& rows, int thread)
      : rows_(rows),
        row_(thread / 8),
        row_bytes_(static_cast<int>(rows.stride) * 2),
        column_(thread % 8 * 8),
        offset_(PieceAddress(0, row_, thread % 8)),
        from_(static_cast<const char*>(rows.data) + int64_t{row_} * row_bytes_ + column_ * 2) {}

  // Begins to copy rows first … first + 63.
  __device__ __forceinline__ void Copy(uint32_t tiles, int first) const {
    const char* from = from_ + int64_t{first} * row_bytes_;
#pragma unroll
    for (int i = 0; i < kTile; i += kThreads / 8) {
      const bool exists = rows_.Exists(first + row_ + i);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        CopyPiece(tiles + tile * kTileBytes + offset_ + i * 128,
                  from + int64_t{i} * row_bytes_ + tile * 128,
                  exists && column_ + tile * kTile < rows_.columns);
      }
    }
  }

 private:
  HeadOfRows rows_;
  int row_, row_bytes_, column_;
  uint32_t offset_;
  const char* from_;
};

// Σ x² of one piece of a tile.
__device__ __forceinline__ float SquareOfPiece(uint32_t tile, int row, int piece) {
  uint32_t x[4];
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(PieceAddress(tile, row, piece))
               : "memory");
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = UnpackPair(x[i]);
    sum += pair.x * pair.x + pair.y * pair.y;
  }
  return sum;
}

// Σ x² of the two rows of a left operand that a thread shares with its quad.
template <int kTiles>
__device__ __forceinline__ float2 SquaresOfRows(const LeftOperand (&x)[kTiles]) {
  float sums[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 16 * kTiles; ++i) {
    const float2 pair = UnpackPair(x[i / 16][i % 16 / 4][i % 4]);
    sums[i & 1] += pair.x * pair.x + pair.y * pair.y;
  }
  return {QuadSum(sums[0]), QuadSum(sums[1])};
}

template <int kTiles>
__device__ __forceinline__ void LoadRows(LeftOperand (&x)[kTiles], uint32_t tiles) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) LoadLeft(x[i], tiles + i * kTileBytes);
}

// x = a·Bᵀ over all columns of rows a, or x += a·Bᵀ.
template <int kTiles>
__device__ __forceinline__ void RowProduct(Accumulators& x, const LeftOperand (&a)[kTiles],
                                           uint32_t tiles, bool keep) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
    Product<Right::kTransposed>(x, a[i], tiles + i * kTileBytes, keep || i > 0);
}
// The same for rows that lie in shared memory.
template <int kTiles>
__device__ __forceinline__ void RowProduct(Accumulators& x, uint32_t rows, uint32_t tiles,
                                           bool keep) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    Product<Right::kTransposed>(x, rows + i * kTileBytes, tiles + i * kTileBytes, keep || i > 0);
  }
}
// x = a·B or x += a·B for all columns of B.
template <int kTiles>
__device__ __forceinline__ void SumRows(Accumulators (&x)[kTiles], const LeftOperand& a,
                                        uint32_t tiles, bool keep) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) Product<Right::kPlain>(x[i], a, tiles + i * kTileBytes, keep);
}
template <int kTiles>
__device__ __forceinline__ void Scale(Accumulators (&x)[kTiles], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) Scale(x[i], factor);
}

// Rows of an array in global memory from f32, rounded to bf16, as tiles of 64 rows; rows and
// columns that do not exist are 0.
template <int kTiles>
__device__ __forceinline__ void LoadTable(const float* table, int rows, int columns, int blocks,
                                          uint32_t tiles, int thread, int threads) {
  for (int i = thread; i < blocks * kTile * 8 * kTiles; i += threads) {
    const int row = i / (8 * kTiles), piece = i % (8 * kTiles);
    uint32_t pairs[4] = {0, 0, 0, 0};
    if (row < rows && piece * 8 < columns) {
      const float4* from = reinterpret_cast<const float4*>(table + row * columns + piece * 8);
      const float4 low = from[0], high = from[1];
      pairs[0] = PackPair(low.x, low.y);
      pairs[1] = PackPair(low.z, low.w);
      pairs[2] = PackPair(high.x, high.y);
      pairs[3] = PackPair(high.z, high.w);
    }
    const uint32_t tile = tiles + (row / kTile * kTiles + piece / 8) * kTileBytes;
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                     PieceAddress(tile, row % kTile, piece % 8)),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
  }
}
// ω of one head.
template <int kTiles>
__device__ __forceinline__ void LoadOmega(const Call& a, const Place& place, uint32_t tiles,
                                          int blocks, int thread, int threads) {
  LoadTable<kTiles>(a.omega + int64_t{place.entry} * a.features * a.dim, a.features, a.dim, blocks,
                    tiles, thread, threads);
}

// The factor of products with ω, in units of features: base-2 exponents, or u itself.
template <class Features>
__device__ __forceinline__ float ArgumentScale(const Call& a, const Place& place) {
  return a.argument_scale[place.entry] * a.sqrt_scale * (Features::kFlat ? 1.0f : kLog2E);
}
// The factor of ‖x‖² in exponents.
__device__ __forceinline__ float NormFactor(const Call& a) {
  return 0.5f * a.norm_slope * a.sqrt_scale * a.sqrt_scale * kLog2E;
}
// The exponent that feature r adds for any row; −∞ for features that do not exist.
__device__ __forceinline__ float Offset(const Call& a, const Place& place, int r) {
  return r < a.features ? a.offset[int64_t{place.entry} * a.features + r] * kLog2E : -kInfinity;
}
// −log₂ of the row's sum of weights without normalisers: what turns weights into shares; −∞ for
// rows that have no gradients.
__device__ __forceinline__ float LogShare(const Call& a, const Place& place, int64_t row) {
  return (2 * place.log_normalizer - a.log_sum[place.group * a.query_length + row]) * kLog2E;
}

// The four threads of a quad hold four values each; thread i gets the values i of all of them, in
// the order of threads.
__device__ __forceinline__ void Trade(uint32_t (&x)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? x[i] : x[i + 1], 1);
    x[i] = odd ? got : x[i];
    x[i + 1] = odd ? x[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, high ? x[i] : x[i + 2], 2);
    x[i] = high ? got : x[i];
    x[i + 2] = high ? x[i + 2] : got;
  }
}

// Writes accumulators as rows: the threads of a quad trade blocks of 8 columns, so that each writes
// 16 bytes, or 32, at a time.
__device__ __forceinline__ void StoreRows(const Accumulators& x, void* to, bool f32, int64_t stride,
                                          int64_t first, int64_t length, int columns) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + ((threadIdx.x >> 5) & 3) * 16 + (threadIdx.x & 31) / 4 + half * 8;
#pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
      const int column = (4 * turn + static_cast<int>(threadIdx.x & 3)) * 8;
      const bool exists = row < length && column < columns;
      const float(*blocks)[4] = x + 4 * turn;
      if (f32) {
        uint32_t low[4], high[4];
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          low[b] = __float_as_uint(blocks[b][2 * half]);
          high[b] = __float_as_uint(blocks[b][2 * half + 1]);
        }
        Trade(low);
        Trade(high);
        if (exists) {
          uint4* out = reinterpret_cast<uint4*>(static_cast<float*>(to) + row * stride + column);
          out[0] = {low[0], high[0], low[1], high[1]};
          out[1] = {low[2], high[2], low[3], high[3]};
        }
      } else {
        uint32_t pairs[4];
#pragma unroll
        for (int b = 0; b < 4; ++b)
          pairs[b] = PackPair(blocks[b][2 * half], blocks[b][2 * half + 1]);
        Trade(pairs);
        if (exists) {
          *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to) + row * stride + column) = {
              pairs[0], pairs[1], pairs[2], pairs[3]};
        }
      }
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void StoreRows(const Accumulators (&x)[kTiles], const Rows& rows,
                                          void* to, int64_t first, int64_t length, int columns) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    StoreRows(x[i], static_cast<char*>(to) + i * kTile * (rows.f32 ? 4 : 2), rows.f32, rows.row,
              first, length, columns - i * kTile);
  }
}

// Raises the limit of dynamic shared memory and launches; errors are those of cudaGetLastError.
template <class Kernel>
void Launch(Kernel* kernel, int64_t blocks, int threads, int bytes, const Call& a,
            cudaStream_t stream) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(a);
}

template <int kNumber>
using Constant = std::integral_constant<int, kNumber>;

// Calls launch(Features{}, Constant<tiles of a row>{}) as the call needs them.
template <class LaunchIt>
void WithShape(const Call& a, const LaunchIt& launch) {
  const auto with_tiles = [&](auto features) {
    if (a.dim <= kTile && a.value_dim <= kTile) {
      launch(features, Constant<1>{});
    } else {
      launch(features, Constant<2>{});
    }
  };
  if (a.function == Function::kExponential) {
    with_tiles(Exponential{});
  } else {
    with_tiles(Flat<Relu>{});
  }
}

// The first 1024-byte boundary of dynamic shared memory.
__device__ __forceinline__ uint32_t FirstTile(const void* dynamic) {
  return (SharedAddress(dynamic) + 1023u) & ~1023u;
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_ROWS_CUH_
