// The arithmetic of TensorCores (tiles.cuh) by Hopper's wgmma: four warps share every right
// operand, which is read from shared memory once for all 64 of their rows. Its accumulators lie as
// those of mma.sync do. Only code for sm_90a has these instructions.
#ifndef FAVOR_KERNELS_CUDA_EXACT_GROUPS_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_GROUPS_CUH_

#include "kernels/cuda/exact/tiles.cuh"
#include "kernels/cuda/parts/wgmma_text.h"

namespace favor::kernels::cuda {

// The compiler may not move what reads or writes these registers across this point: nothing may
// touch operands and accumulators of products that run.
template <int kTiles>
__device__ __forceinline__ void Pin(float (&x)[1][kTiles][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) asm volatile("" : "+f"(x[0][i / 4][i % 4])::"memory");
}
template <int kSteps>
__device__ __forceinline__ void Pin(uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

__device__ __forceinline__ void BeginProducts() {
  if constexpr (kHasWarpGroups) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void CommitProducts() {
  if constexpr (kHasWarpGroups) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most the last kPending of those that were committed run.
template <int kPending>
__device__ __forceinline__ void WaitForProducts() {
  if constexpr (kHasWarpGroups)
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Rows of 64 elements, 128 bytes, swizzled; 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ uint64_t Descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | (uint64_t{1} << 16) |
         (uint64_t{1024 >> 4} << 32) | (uint64_t{1} << 62);
}

// 64 columns of accumulators = or += (if `keep`) 16 columns of the left operand, in registers, by
// 16 rows of the right one: those of the tile (kPlain 1), or of its transpose (0).
template <class T, int kPlain>
__device__ __forceinline__ void GroupMultiply(float (*x)[4], const uint32_t (&a)[4], uint64_t b,
                                              int keep) {
  if constexpr (!kHasWarpGroups) {
    return;
  } else if constexpr (std::is_same_v<T, __half>) {
    asm volatile(FAVOR_WGMMA_TEXT("f16", "%37") "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
                 : FAVOR_WGMMA_SUMS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(kPlain));
  } else {
    asm volatile(FAVOR_WGMMA_TEXT("bf16", "%37") "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
                 : FAVOR_WGMMA_SUMS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(kPlain));
  }
}
// The same with the left operand in shared memory too, by the transpose of the right one.
template <class T>
__device__ __forceinline__ void GroupMultiply(float (*x)[4], uint64_t a, uint64_t b, int keep) {
  if constexpr (!kHasWarpGroups) {
    return;
  } else if constexpr (std::is_same_v<T, __half>) {
    asm volatile(FAVOR_WGMMA_TEXT("f16", "%34") "%32, %33, p, 1, 1, 0, 0;\n}\n"
                 : FAVOR_WGMMA_SUMS
                 : "l"(a), "l"(b), "r"(keep));
  } else {
    asm volatile(FAVOR_WGMMA_TEXT("bf16", "%34") "%32, %33, p, 1, 1, 0, 0;\n}\n"
                 : FAVOR_WGMMA_SUMS
                 : "l"(a), "l"(b), "r"(keep));
  }
}

// kGroups groups of four warps with 64 rows each; a tile is panels of 64 columns. Sums have
// kSumColumns_ columns: blocks share wider rows.
template <class T, int kDim, int kGroups, int kColumnTiles_, int kBlocks_, int kSumColumns_ = kDim>
class WarpGroups {
 public:
  static constexpr int kThreads = 128 * kGroups, kBlocks = kBlocks_, kStages = 2;
  static constexpr bool kExists = kHasWarpGroups;
  static constexpr int kRowTiles = 1, kColumnTiles = kColumnTiles_, kSumTiles = kSumColumns_ / 8;
  static constexpr int kWarpRows = 16, kRows = 64 * kGroups;
  static constexpr int kSumColumns = kSumColumns_;
  static constexpr int kGroupRows = 64;  // of four warps
  using Scores = float[kRowTiles][kColumnTiles][4];
  using Sums = float[kRowTiles][kSumTiles][4];

  static __host__ __device__ int TileBytes(int rows, int) { return rows * kDim * 2; }
  static __host__ __device__ int ScratchBytes() { return 0; }

  struct Tile {
    __device__ Tile(char* memory, int rows, int)
        : address(SharedAddress(memory)), panel(rows * kPanelRow) {}
    __device__ Tile After(int rows) const {
      Tile after = *this;
      after.address += rows * kPanelRow;
      return after;
    }
    // 16 columns of the first 64 rows, or of more.
    __device__ uint32_t Columns(int step) const {
      return address + step / 4 * panel + step % 4 * 32;
    }

    uint32_t address, panel;
  };

  // The rows of a warpgroup, which stay in shared memory.
  struct Left {
    __device__ Left(const WarpGroups&, const Tile& of)
        : tile(of.After(static_cast<int>(threadIdx.x) / 128 * 64)) {}
    __device__ void Hold() {}

    Tile tile;
  };
  using Weights = uint32_t[kColumnTiles / 2][4];

  // From the first lane, so that the compiler knows that warps agree on it.
  __device__ static int FirstRowOfGroup() {
    return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 * kGroupRows, 0);
  }

  __device__ explicit WarpGroups(char*) {}

  // What this thread copied becomes visible to wgmma once a barrier follows.
  __device__ static void WaitForTiles() {
    WaitForCopies();
    if constexpr (kHasWarpGroups) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }

  template <int kCount>
  __device__ void Load(const Tile& tile, const ExactRows& rows, int64_t first) const {
    LoadPieces<T, kCount, kDim, kThreads>(rows, first, [&](int row, int piece) {
      return tile.address + piece / 8 * tile.panel + row * kPanelRow +
             ((piece % 8 ^ (row & 7)) << 4);
    });
  }

  __device__ __forceinline__ void StartProduct(const Left& left, const Tile& right,
                                               Scores& scores) const {
    Pin(scores);
    BeginProducts();
#pragma unroll
    for (int n = 0; n < kColumnTiles; n += 8) {
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) {
        GroupMultiply<T>(scores[0] + n, Descriptor(left.tile.Columns(k)),
                         Descriptor(right.After(n * 8).Columns(k)), k > 0);
      }
    }
    CommitProducts();
  }
  template <int kPending>
  __device__ __forceinline__ void FinishProduct(Scores& scores) const {
    WaitForProducts<kPending>();
    Pin(scores);
  }

  __device__ __forceinline__ void StartAddProduct(const Scores& scores, const Tile& right,
                                                  int first_column, Sums& sums,
                                                  Weights& weights) const {
#pragma unroll
    for (int k = 0; k < kColumnTiles / 2; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = scores[0][2 * k + i / 2] + i % 2 * 2;
        weights[k][i] = Pack<T>(pair[0], pair[1]);
      }
    }
    const uint32_t first = right.address + first_column / 64 * right.panel;
    Pin(weights);
    Pin(sums);
    BeginProducts();
#pragma unroll
    for (int n = 0; n < kSumTiles; n += 8) {
#pragma unroll
      for (int k = 0; k < kColumnTiles / 2; ++k) {
        GroupMultiply<T, 1>(sums[0] + n, weights[k],
                            Descriptor(first + n / 8 * right.panel + k * 16 * kPanelRow), 1);
      }
    }
    CommitProducts();
  }
  template <int kPending>
  __device__ __forceinline__ void FinishAddProduct(Sums& sums, Weights& weights) const {
    WaitForProducts<kPending>();
    Pin(weights);
    Pin(sums);
  }

 private:
  static constexpr int kPanelRow = 128;  // bytes
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_GROUPS_CUH_
