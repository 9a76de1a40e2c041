// Products of tiles on tensor cores, for a warpgroup: four warps that hold 64 rows of accumulators
// in registers, 16 rows each, as m16n8k16 lays them out. One interface, two engines: wgmma in code
// for sm_90a, which reads one operand from shared memory once for all four warps, and mma.sync with
// ldmatrix in all other code. Registers of both are laid out alike.
//
// A tile in shared memory is 64 rows of 64 bf16, 128 bytes each; of row r the 16-byte piece c lies
// at c ^ (r mod 8), the 128-byte swizzle of Hopper's tensor cores, so that neither rows nor columns
// of pieces share banks. Tiles begin at multiples of 1024 bytes.
#ifndef FAVOR_KERNELS_CUDA_PARTS_TENSOR_TILES_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_TENSOR_TILES_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/parts/wgmma_text.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FAVOR_WGMMA 1
#else
#define FAVOR_WGMMA 0
#endif

namespace favor::kernels::cuda {

constexpr int kTile = 64;                      // rows and columns of a tile
constexpr int kTileBytes = kTile * kTile * 2;  // 8 KiB
constexpr int kGroupThreads = 128;             // threads of a warpgroup

// 64 × 64 accumulators of a warpgroup. Thread `lane` of warp w holds rows 16w + lane/4 (elements 0
// and 1 of a block) and 8 rows below (2 and 3), of block b columns 8b + 2·(lane mod 4) and the
// next.
using Accumulators = float[8][4];
// 64 × 64 elements as the left operand: four steps of 16 columns.
using LeftOperand = uint32_t[4][4];

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// The address of piece `piece` (8 columns) of row `row` of a tile.
__device__ __forceinline__ uint32_t PieceAddress(uint32_t tile, int row, int piece) {
  return tile + static_cast<uint32_t>(row * 128 + ((piece ^ (row & 7)) << 4));
}

// --- Copies from global to shared memory, 16 bytes at a time and asynchronous.
// Pieces that do not exist are filled with zeros; `from` is not read then.
__device__ __forceinline__ void CopyPiece(uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0));
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// What this thread wrote to shared memory becomes visible to tensor cores, once a barrier follows.
__device__ __forceinline__ void PublishToTensorCores() {
#if FAVOR_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// A barrier of `threads` threads of the block; 0 is that of __syncthreads.
__device__ __forceinline__ void Barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- Roles. The warpgroup of this thread, known to the compiler as the same for a warp.
__device__ __forceinline__ int WarpgroupOf() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}
// From here on this warpgroup has kCount registers per thread: less than the launch gave it, or
// more, which waits until others have given theirs away.
template <int kCount>
__device__ __forceinline__ void KeepRegisters() {
#if FAVOR_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ __forceinline__ void TakeRegisters() {
#if FAVOR_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

// --- Operands.
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ float2 UnpackPair(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// Where a lane finds its 16 bytes of a step of a left operand in a tile, if matrices of 8 × 8 move
// as ldmatrix and stmatrix do: each warp has its own 16 rows. Steps differ in bits that only the
// piece has.
__device__ __forceinline__ uint32_t StepAddress(uint32_t tile, int step) {
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
  return PieceAddress(tile, warp * 16 + (lane & 15), lane >> 4) ^ static_cast<uint32_t>(step << 5);
}

// The rows of a tile as the left operand.
__device__ __forceinline__ void LoadLeft(LeftOperand& a, uint32_t tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[step][0]), "=r"(a[step][1]), "=r"(a[step][2]), "=r"(a[step][3])
                 : "r"(StepAddress(tile, step))
                 : "memory");
  }
}

// Step `step` of accumulators, rounded, as a left operand.
__device__ __forceinline__ void ToLeftStep(uint32_t (&a)[4], const Accumulators& x, int step) {
  a[0] = PackPair(x[2 * step][0], x[2 * step][1]);
  a[1] = PackPair(x[2 * step][2], x[2 * step][3]);
  a[2] = PackPair(x[2 * step + 1][0], x[2 * step + 1][1]);
  a[3] = PackPair(x[2 * step + 1][2], x[2 * step + 1][3]);
}
__device__ __forceinline__ void ToLeft(LeftOperand& a, const Accumulators& x) {
#pragma unroll
  for (int step = 0; step < 4; ++step) ToLeftStep(a[step], x, step);
}

__device__ __forceinline__ void StoreStep(const uint32_t (&a)[4], uint32_t tile, int step) {
#if FAVOR_WGMMA
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   StepAddress(tile, step)),
               "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
#else
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
  const int row = warp * 16 + lane / 4;
  const uint32_t within = static_cast<uint32_t>(lane & 3) * 4;
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(
                     PieceAddress(tile, row + (part & 1) * 8, 2 * step + (part >> 1)) + within),
                 "r"(a[part])
                 : "memory");
  }
#endif
}
// A left operand as the rows of a tile.
__device__ __forceinline__ void StoreLeft(const LeftOperand& a, uint32_t tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) StoreStep(a[step], tile, step);
}
// Accumulators, rounded, as the rows of a tile.
__device__ __forceinline__ void StoreRounded(const Accumulators& x, uint32_t tile) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    uint32_t a[4];
    ToLeftStep(a, x, step);
    StoreStep(a, tile, step);
  }
}

// --- Products. The right operand is a tile in shared memory: kByRows: its rows are columns of the
// right factor (x += a·Bᵀ for a tile B); else its rows are rows of it (x += a·B).
enum class Right { kTransposed, kPlain };

#if FAVOR_WGMMA
// The compiler may not move what reads or writes these registers across this point.
__device__ __forceinline__ void Pin(Accumulators& x) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(x[i / 4][i % 4])::"memory");
}

template <int kCount>
__device__ __forceinline__ void Pin(Accumulators (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) Pin(x[i]);
}

__device__ __forceinline__ void Pin(LeftOperand& a) {
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// Products into `x` follow. Neither they nor operands in registers may be touched before the group
// of products that ends with CommitProducts has been waited for.
template <class... X>
__device__ __forceinline__ void BeginProducts(X&... x) {
  (Pin(x), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending groups run: `x` are results and operands of others.
template <int kPending, class... X>
__device__ __forceinline__ void WaitForProducts(X&... x) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  (Pin(x), ...);
}

// 128-byte swizzle, 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ uint64_t Descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | (uint64_t{1} << 16) |
         (uint64_t{1024 >> 4} << 32) | (uint64_t{1} << 62);
}

template <int kPlain>
__device__ __forceinline__ void Step(Accumulators& x, const uint32_t (&a)[4], uint64_t b,
                                     int keep) {
  asm volatile(FAVOR_WGMMA_TEXT("bf16", "%37") "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
               : FAVOR_WGMMA_SUMS
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(kPlain));
}

template <int kPlain>
__device__ __forceinline__ void Step(Accumulators& x, uint64_t a, uint64_t b, int keep) {
  asm volatile(FAVOR_WGMMA_TEXT("bf16", "%34") "%32, %33, p, 1, 1, 0, %35;\n}\n"
               : FAVOR_WGMMA_SUMS
               : "l"(a), "l"(b), "r"(keep), "n"(kPlain));
}

constexpr uint32_t kRowStep = 32;  // bytes from 16 columns of a row to the next
// Bytes from 16 of the inner axis of a right operand to the next.
template <Right kRight>
constexpr uint32_t kInnerStep = kRight == Right::kPlain ? 16 * 128 : kRowStep;

// x = a·B or, with `keep`, x += a·B.
template <Right kRight>
__device__ __forceinline__ void Product(Accumulators& x, const LeftOperand& a, uint32_t tile,
                                        bool keep) {
  const uint64_t first = Descriptor(tile);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    Step<kRight == Right::kPlain>(x, a[step], first + step * (kInnerStep<kRight> >> 4),
                                  keep || step > 0 ? 1 : 0);
  }
}
// The same for the rows of a tile as the left operand.
template <Right kRight>
__device__ __forceinline__ void Product(Accumulators& x, uint32_t left, uint32_t tile, bool keep) {
  const uint64_t rows = Descriptor(left), first = Descriptor(tile);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    Step<kRight == Right::kPlain>(x, rows + step * (kRowStep >> 4),
                                  first + step * (kInnerStep<kRight> >> 4),
                                  keep || step > 0 ? 1 : 0);
  }
}
#else
template <class... X>
__device__ __forceinline__ void BeginProducts(X&...) {}
__device__ __forceinline__ void CommitProducts() {}
template <int kPending, class... X>
__device__ __forceinline__ void WaitForProducts(X&...) {}

__device__ __forceinline__ void Step(float (&x)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <Right kRight>
__device__ __forceinline__ void Product(Accumulators& x, const LeftOperand& a, uint32_t tile,
                                        bool keep) {
  const int lane = threadIdx.x & 31;
  if (!keep) {
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i / 4][i % 4] = 0;
  }
#pragma unroll
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {  // of blocks of 8 columns
      uint32_t b[4];
      if constexpr (kRight == Right::kTransposed) {
        const int row = pair * 16 + (lane & 7) + (lane >> 4) * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(PieceAddress(tile, row, step * 2 + ((lane >> 3) & 1)))
                     : "memory");
      } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(PieceAddress(tile, step * 16 + (lane & 15), pair * 2 + (lane >> 4)))
                     : "memory");
      }
      Step(x[2 * pair], a[step], b[0], b[1]);
      Step(x[2 * pair + 1], a[step], b[2], b[3]);
    }
  }
}
template <Right kRight>
__device__ __forceinline__ void Product(Accumulators& x, uint32_t left, uint32_t tile, bool keep) {
  LeftOperand a;
  LoadLeft(a, left);
  Product<kRight>(x, a, tile, keep);
}
#endif

// Ends products that nothing overlaps with.
template <class... X>
__device__ __forceinline__ void EndProducts(X&... x) {
  CommitProducts();
  WaitForProducts<0>(x...);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_TENSOR_TILES_CUH_
