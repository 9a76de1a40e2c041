// Products of bf16 on tensor cores, with sums in f32. Two warpgroups have 64 rows of a block each;
// 64 terms of 128 lines of both operands are a stage in shared memory, and three stages are on
// their way at a time.
#ifndef FAVOR_KERNELS_CUDA_MATMUL_BF16_CUH_
#define FAVOR_KERNELS_CUDA_MATMUL_BF16_CUH_

#include "kernels/cuda/matmul/block.cuh"
#include "kernels/cuda/parts/tensor_tiles.cuh"

namespace favor::kernels::cuda::tiles {

constexpr int kStages = 3;
constexpr int kOperandBytes = 2 * kTileBytes, kStageBytes = 2 * kOperandBytes;
constexpr int kSharedBytes = kStages * kStageBytes + 1024;  // to begin at a multiple of 1024
constexpr int kPiece = 8;                                   // elements that are copied at once

// How an operand lies in its tiles, two of 64 lines each: a row of a tile is a line, or a term.
enum class TileRows { kLines, kTerms };

// Copies the first `count` elements of a piece, and zeros for the others.
__device__ __forceinline__ void CopyAligned(const BF16* from, int count, uint32_t to) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(count * 2));
}
__device__ __forceinline__ void CopySingly(const BF16* from, int64_t stride, int count,
                                           uint32_t to) {
  uint32_t pairs[kPiece / 2];
#pragma unroll
  for (int i = 0; i < kPiece / 2; ++i) {
    const BF16 low = 2 * i < count ? from[2 * i * stride] : BF16(0.0f);
    const BF16 high = 2 * i + 1 < count ? from[(2 * i + 1) * stride] : BF16(0.0f);
    pairs[i] = __bfloat16_as_ushort(low) | uint32_t{__bfloat16_as_ushort(high)} << 16;
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pairs[0]), "r"(pairs[1]),
               "r"(pairs[2]), "r"(pairs[3])
               : "memory");
}

// The pieces of one operand that a thread copies in each stage: its piece of four rows of the two
// tiles.
template <TileRows kRows>
class StageCopy {
 public:
  __device__ StageCopy(const Lines<BF16>& x, int64_t first, int64_t begin)
      : row_(static_cast<int>(threadIdx.x) / kPieces),
        piece_(static_cast<int>(threadIdx.x) % kPieces),
        x_(x) {
    const int64_t line = first + (kByLines ? row_ : piece_ * kPiece);
    const int64_t term = begin + (kByLines ? piece_ * kPiece : row_);
    at_ = x.data + line * x.line + term * x.term;
    lines_ = static_cast<int>(min(x.count - line, int64_t{kBlockSide}));
    const bool neighbours = (kByLines ? x.term : x.line) == 1;
    aligned_ = neighbours && (kByLines ? x.line : x.term) % kPiece == 0 &&
               reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  }

  // Copies the next 64 terms, of which `left` exist, to the tiles of a stage.
  __device__ void Copy(int left, uint32_t tiles) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = i / 2, row = row_ + i % 2 * kRowStep;
      const int lines = lines_ - tile * kTile - (kByLines ? i % 2 * kRowStep : 0);
      const int terms = left - (kByLines ? piece_ * kPiece : row);
      const int count = min(lines, terms) <= 0 ? 0 : min(kByLines ? terms : lines, kPiece);
      const int64_t ahead = (tile * kTile + (kByLines ? i % 2 * kRowStep : 0)) * x_.line +
                            (kByLines ? 0 : i % 2 * kRowStep) * x_.term;
      const BF16* from = count > 0 ? at_ + ahead : at_;
      const uint32_t to = PieceAddress(tiles + tile * kTileBytes, row, piece_);
      if (aligned_) {
        CopyAligned(from, count, to);
      } else {
        CopySingly(from, kByLines ? x_.term : x_.line, count, to);
      }
    }
    at_ += kTile * x_.term;
  }

 private:
  static constexpr bool kByLines = kRows == TileRows::kLines;
  static constexpr int kPieces = kTile / kPiece;
  static constexpr int kRowStep = kBlockThreads / kPieces;

  int row_, piece_;
  const Lines<BF16>& x_;
  const BF16* at_;
  int lines_;  // from this thread's first one on
  bool aligned_;
};

// The columns of a tile as rows of the left operand: LoadLeft of a tile whose rows are terms.
__device__ __forceinline__ void LoadLeftAcross(LeftOperand& a, uint32_t tile) {
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
  const int term = (lane & 7) + (lane >> 4) * 8, piece = warp * 2 + ((lane >> 3) & 1);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[step][0]), "=r"(a[step][1]), "=r"(a[step][2]), "=r"(a[step][3])
                 : "r"(PieceAddress(tile, step * 16 + term, piece))
                 : "memory");
  }
}

// Adds the products of one stage to the 64 × 128 sums of this thread's warpgroup.
template <TileRows kA, TileRows kB>
__device__ __forceinline__ void AddStage(Accumulators (&sums)[2], uint32_t stage) {
  constexpr Right kRight = kB == TileRows::kLines ? Right::kTransposed : Right::kPlain;
  const uint32_t a = stage + threadIdx.x / kGroupThreads * kTileBytes, b = stage + kOperandBytes;
  LeftOperand left;
  if constexpr (kA == TileRows::kLines) {
    LoadLeft(left, a);
  } else {
    LoadLeftAcross(left, a);
  }
  BeginProducts(sums[0], sums[1]);
  Product<kRight>(sums[0], left, b, /*keep=*/true);
  Product<kRight>(sums[1], left, b + kTileBytes, /*keep=*/true);
  EndProducts(sums[0], sums[1]);
}

template <TileRows kA, TileRows kB, class Out>
__global__ void __launch_bounds__(kBlockThreads, 2)
    TensorKernel(const __grid_constant__ TiledProduct<BF16, Out> p) {
  extern __shared__ unsigned char dynamic[];
  const uint32_t stages = (SharedAddress(dynamic) + 1023u) & ~1023u;
  const Part part(p);
  StageCopy<kA> a(p.a, part.row, part.begin);
  StageCopy<kB> b(p.b, part.column, part.begin);
  const int count = static_cast<int>((part.terms + kTile - 1) / kTile);
  const auto stage_of = [&](int step) {
    return stages + static_cast<uint32_t>(step % kStages * kStageBytes);
  };
  // Every step is a group of copies, if only an empty one, so that groups can be counted.
  const auto copy = [&](int step) {
    if (step < count) {
      const int left = static_cast<int>(min(part.terms - int64_t{step} * kTile, int64_t{kTile}));
      a.Copy(left, stage_of(step));
      b.Copy(left, stage_of(step) + kOperandBytes);
    }
    CommitCopies();
  };
  Accumulators sums[2] = {};
  for (int step = 0; step < kStages - 1; ++step) copy(step);
  for (int step = 0; step < count; ++step) {
    WaitForCopies<kStages - 2>();
    PublishToTensorCores();
    __syncthreads();  // the stage is there, and all warps have read the one before it
    copy(step + kStages - 1);
    AddStage<kA, kB>(sums, stage_of(step));
  }
  Result<BF16, Out> to = p.result;
  to.data += blockIdx.y * to.rows * to.columns;
  const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int tile = i / 16, block = i / 2 % 8, half = i % 2;
    float pair[2] = {sums[tile][block][2 * half], sums[tile][block][2 * half + 1]};
    StoreSums(to, part.row + row + 8 * half,
              part.column + tile * kTile + block * 8 + 2 * (lane & 3), pair);
  }
}

// Rows of a tile are those of memory, if neighbours in memory are along one axis.
inline TileRows TileRowsOf(const Lines<BF16>& x) {
  return x.line == 1 && x.term != 1 ? TileRows::kTerms : TileRows::kLines;
}

template <TileRows kA, TileRows kB, class Out>
void LaunchTensorKernel(const TiledProduct<BF16, Out>& p, const dim3& blocks, cudaStream_t stream) {
  const auto kernel = TensorKernel<kA, kB, Out>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  kernel<<<blocks, kBlockThreads, kSharedBytes, stream>>>(p);
}

template <class Out>
void Launch(const TiledProduct<BF16, Out>& p, const dim3& blocks, cudaStream_t stream) {
  constexpr TileRows kLines = TileRows::kLines, kTerms = TileRows::kTerms;
  const bool a_by_terms = TileRowsOf(p.a) == kTerms, b_by_terms = TileRowsOf(p.b) == kTerms;
  if (a_by_terms && b_by_terms) return LaunchTensorKernel<kTerms, kTerms>(p, blocks, stream);
  if (a_by_terms) return LaunchTensorKernel<kTerms, kLines>(p, blocks, stream);
  if (b_by_terms) return LaunchTensorKernel<kLines, kTerms>(p, blocks, stream);
  LaunchTensorKernel<kLines, kLines>(p, blocks, stream);
}

}  // namespace favor::kernels::cuda::tiles

#endif  // FAVOR_KERNELS_CUDA_MATMUL_BF16_CUH_
