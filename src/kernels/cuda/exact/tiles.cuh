// Products of tiles on tensor cores (sm_80 and up): mma.sync m16n8k16 with operands from shared
// memory, which cp.async fills while the tiles before are used. The accumulators of a warp are
// tiles of 16 rows and 8 columns, of which lane l holds rows l/4 and l/4 + 8, columns 2(l mod 4)
// and the next.
#ifndef FAVOR_KERNELS_CUDA_EXACT_TILES_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_TILES_CUH_

#include <type_traits>

#include "kernels/cuda/exact/call.cuh"

namespace favor::kernels::cuda {

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies `kBytes`, or writes as many zeros. Complete for this thread after WaitForCopies.
template <int kBytes>
__device__ void CopyAsync(uint32_t to, const void* from, bool exists) {
  const int bytes = exists ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(bytes));
  }
}
__device__ inline void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four matrices of 8 × 8 elements of 16 bits; lane l gives the address of row l mod 8 of matrix
// l / 8.
__device__ inline void LoadMatrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ inline void LoadTransposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

template <class T>
__device__ void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Two neighbours of a row, the first in the lower half.
template <class T>
__device__ uint32_t Pack(float first, float second) {
  uint32_t packed;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  }
  return packed;
}

// Starts the copy of 16 bytes, the elements from 8·piece on, of a row; what does not exist becomes
// zeros.
template <class T>
__device__ void CopyPiece(uint32_t to, const ExactRows& rows, int64_t row, int piece) {
  const bool exists = rows.Has(row) && piece * 8 < rows.columns;
  const T* from = static_cast<const T*>(rows.data) +
                  (exists ? rows.first + row * rows.row_stride + piece * 8 : 0);
  if (rows.vectors) {
    CopyAsync<16>(to, from, exists);
    return;
  }
  const int count = exists ? rows.columns - piece * 8 : 0;
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = 2 * i < count ? bits[2 * i] : 0;
    const uint32_t high = 2 * i + 1 < count ? bits[2 * i + 1] : 0;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * i), "r"(low | high << 16) : "memory");
  }
}

// Starts the copy of rows first … first + kCount − 1; those that do not exist become zeros.
// `address(row, piece)` is where 8 elements go.
template <class T, int kCount, int kDim, int kThreads, class Address>
__device__ void LoadPieces(const ExactRows& rows, int64_t first, const Address& address) {
  constexpr int kPieces = kDim / 8, kRowsAtATime = kThreads / kPieces;
  const int first_row = threadIdx.x / kPieces, piece = threadIdx.x % kPieces;
  if (rows.vectors && rows.mask == nullptr && first + kCount <= rows.count &&
      rows.columns == kDim) {
    const T* from = static_cast<const T*>(rows.data) + rows.first +
                    (first + first_row) * rows.row_stride + piece * 8;
    const int64_t step = kRowsAtATime * rows.row_stride;
#pragma unroll
    for (int row = 0; row < kCount; row += kRowsAtATime) {
      if (kCount % kRowsAtATime == 0 || row + first_row < kCount)
        CopyAsync<16>(address(row + first_row, piece), from, true);
      from += step;
    }
    return;
  }
  for (int row = first_row; row < kCount; row += kRowsAtATime)
    CopyPiece<T>(address(row, piece), rows, first + row, piece);
}

// The arithmetic of a block with rows of up to kDim elements of T: each of four warps has
// 16·kRowTiles_ rows, and takes 8·kColumnTiles_ columns at a time. A row in shared memory is kDim
// elements; its pieces of 16 bytes are exchanged with the row's number, so that ldmatrix reads
// eight rows from different banks. kHeld: the left operands stay in registers.
template <class T, int kDim, int kRowTiles_, int kColumnTiles_, bool kHeld, int kBlocks_>
class TensorCores {
 public:
  static constexpr int kThreads = 128, kBlocks = kBlocks_, kStages = 2;
  static constexpr bool kExists = !kHasWarpGroups;  // in the code that is compiled
  static constexpr int kRowTiles = kRowTiles_, kColumnTiles = kColumnTiles_, kSumTiles = kDim / 8;
  static constexpr int kWarpRows = 16 * kRowTiles, kRows = kThreads / 32 * kWarpRows;
  static constexpr int kSumColumns = kDim;
  static constexpr int kGroupRows = kWarpRows;  // of a warp
  using Scores = float[kRowTiles][kColumnTiles][4];
  using Sums = float[kRowTiles][kSumTiles][4];
  struct Weights {};  // what a product that runs needs

  static __host__ __device__ int TileBytes(int rows, int) { return rows * kRowBytes; }
  static __host__ __device__ int ScratchBytes() { return 0; }

  struct Tile {
    __device__ Tile(char* memory, int, int) : address(SharedAddress(memory)) {}
    __device__ Tile After(int rows) const { return Tile(address + rows * kRowBytes); }

    uint32_t address;

   private:
    __device__ explicit Tile(uint32_t at) : address(at) {}
  };

  // The rows of a warp as the left operand of Product.
  class Left {
   public:
    __device__ Left(const TensorCores& engine, const Tile& tile)
        : address_(tile.address + threadIdx.x / 32 * kWarpRows * kRowBytes), engine_(engine) {}
    // Once the tile is there.
    __device__ void Hold() {
      if constexpr (kHeld) {
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) Load(k, held_[k]);
      }
    }
    __device__ void Get(int k, uint32_t (&a)[kRowTiles][4]) const {
      if constexpr (kHeld) {
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[m][i] = held_[k][m][i];
        }
      } else {
        Load(k, a);
      }
    }

   private:
    __device__ void Load(int k, uint32_t (&a)[kRowTiles][4]) const {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
        LoadMatrices(a[m], address_ + m * 16 * kRowBytes + (engine_.rows_lane_ ^ (k << 5)));
    }

    uint32_t address_;
    const TensorCores& engine_;
    uint32_t held_[kHeld ? kDim / 16 : 1][kRowTiles][4];
  };

  using HeldLeft = Left;

  __device__ static int FirstRowOfGroup() { return static_cast<int>(threadIdx.x) / 32 * kWarpRows; }

  __device__ explicit TensorCores(char*) {
    const uint32_t lane = threadIdx.x % 32;
    rows_lane_ = (lane & 15) * kRowBytes + (((lane >> 4) ^ (lane & 7)) << 4);
    columns_lane_ =
        ((lane & 7) + ((lane >> 4) << 3)) * kRowBytes + ((((lane >> 3) & 1) ^ (lane & 7)) << 4);
  }

  // Waits for this thread's copies; those of others are there after a barrier.
  __device__ static void WaitForTiles() { WaitForCopies(); }

  // Starts the copy of kCount rows; those that do not exist become zeros.
  template <int kCount>
  __device__ void Load(const Tile& tile, const ExactRows& rows, int64_t first) const {
    LoadPieces<T, kCount, kDim, kThreads>(rows, first, [&](int row, int piece) {
      return tile.address + row * kRowBytes + ((piece ^ (row & 7)) << 4);
    });
  }

  // Scores = left · rightᵀ. What is started may run until it is finished with fewer than it behind
  // it; here, it is done at once.
  __device__ void StartProduct(const Left& left, const Tile& right, Scores& scores) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] = 0;
      }
    }
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t a[kRowTiles][4];
      left.Get(k, a);
#pragma unroll
      for (int n = 0; n < kColumnTiles / 2; ++n) {
        uint32_t b[4];
        LoadMatrices(b, right.address + n * 16 * kRowBytes + (columns_lane_ ^ (k << 5)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          MultiplyAdd<T>(scores[m][2 * n], a[m], b[0], b[1]);
          MultiplyAdd<T>(scores[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  template <int kPending>
  __device__ void FinishProduct(Scores&) const {}

  // Sums += weights · right.
  __device__ void StartAddProduct(const Scores& weights, const Tile& right, int, Sums& sums,
                                  Weights&) const {
#pragma unroll
    for (int k = 0; k < kColumnTiles / 2; ++k) {
      uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* pair = weights[m][2 * k + i / 2] + i % 2 * 2;
          a[m][i] = Pack<T>(pair[0], pair[1]);
        }
      }
#pragma unroll
      for (int n = 0; n < kSumTiles / 2; ++n) {
        uint32_t b[4];
        LoadTransposed(b, right.address + k * 16 * kRowBytes + (rows_lane_ ^ (n << 5)));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          MultiplyAdd<T>(sums[m][2 * n], a[m], b[0], b[1]);
          MultiplyAdd<T>(sums[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  template <int kPending>
  __device__ void FinishAddProduct(Sums&, Weights&) const {}

 private:
  static constexpr int kRowBytes = kDim * 2;

  // This lane's addresses in a tile: 16 rows × 16 columns as ldmatrix reads the left operand, or a
  // transposed right one, and 16 rows as the columns of a product.
  uint32_t rows_lane_, columns_lane_;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_TILES_CUH_
