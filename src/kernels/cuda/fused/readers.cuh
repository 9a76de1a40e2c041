// What the readers of a state have in common: where state and rows lie, and the pairs of tokens
// within a chunk.
#ifndef FAVOR_KERNELS_CUDA_FUSED_READERS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_READERS_CUH_

#include "kernels/cuda/fused/rows.cuh"

namespace favor::kernels::cuda::fused {

// The tokens of a reader's own chunk: there are none, or they are met, and may forget.
enum class Chunk : uint8_t { kNone, kPlain, kForgets };

// What the tokens of a chunk forget. Of tokens that do not exist, keys forget nothing and queries
// everything, so that whatever meets them stays finite.
struct ChunkDecay {
  const float* sums;  // [rows], base-2 logarithms: see Call::decay
  int rows;           // of the chunk that exist

  template <bool kOfKeys>
  __device__ __forceinline__ float At(int row) const {
    return row < rows ? sums[row] : kOfKeys ? 0.0f : -kInfinity;
  }
  // What is left of the state where a row reads it: of that of the keys before the chunk, or of the
  // queries behind it.
  template <bool kRowsAreKeys>
  __device__ __forceinline__ float Kept(int row) const {
    return Exp2(kRowsAreKeys ? sums[rows - 1] - At<true>(row) : At<false>(row));
  }
};

// What a warpgroup reads: tiles of 64 features each. S holds [feature, value]; `features` holds
// [feature, token of the chunk], e^{E − c}·g; `values` are the rows of the other side of the chunk:
// of v, or of dO for gradients of keys.
struct StateTiles {
  uint32_t omega, s, features, values;
  const float *c, *z;  // [blocks · 64]: c with the offset of the reader, z (of the adjoint: Σ w δ)
  const float* delta;  // [64]: δ of the chunk's queries, for gradients of keys
  int blocks;
  ChunkDecay decay{};
};

// Calls read(block, is_last) for the blocks of features of a state: kBlocks of them, or, if that is
// 0, as many as it says. Code without a loop keeps what products need in uniform registers.
template <int kBlocks, class Read>
__device__ __forceinline__ void ForBlocks(const StateTiles& state, const Read& read) {
  if constexpr (kBlocks > 0) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) read(block, block == kBlocks - 1);
  } else {
#pragma unroll 1
    for (int block = 0; block < state.blocks; ++block) read(block, block == state.blocks - 1);
  }
}

// The rows of a warpgroup: tiles of q or k, and for gradients, behind them, of dO or v.
struct TokenRows {
  uint32_t tiles;
  int first, length;  // rows of the sequence: what lies beyond is not stored
  float argument_scale;
};

// Which tokens of a chunk see which: keys up to the query. Pairs that do not are 0.
template <bool kRowsAreKeys>
__device__ __forceinline__ void HideLater(Accumulators& pairs) {
  // The compiler would keep 32 conditions in registers otherwise.
  int distance = RowOf(0) - ColumnOf(0, 0);
  asm volatile("" : "+r"(distance));
#pragma unroll
  for (int b = 0; b < 8; ++b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int later = 8 * b + (i & 1) - (i / 2) * 8;
      pairs[b][i] = (kRowsAreKeys ? later >= distance : later <= distance) ? pairs[b][i] : 0.0f;
    }
  }
}

// Pairs of a query and a key forget what lies between them. Those that do not see each other become
// 0: HideLater.
template <bool kRowsAreKeys>
__device__ __forceinline__ void ForgetBetween(Accumulators& pairs, const ChunkDecay& decay) {
  const float own[2] = {decay.At<kRowsAreKeys>(RowOf(0)), decay.At<kRowsAreKeys>(RowOf(2))};
#pragma unroll
  for (int b = 0; b < 8; ++b) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float other = decay.At<!kRowsAreKeys>(ColumnOf(b, i));
#pragma unroll
      for (int half = 0; half < 2; ++half)
        pairs[b][2 * half + i] *= Exp2(kRowsAreKeys ? other - own[half] : own[half] - other);
    }
  }
}

// The pairs of a chunk as they count.
template <Chunk kChunk, bool kRowsAreKeys>
__device__ __forceinline__ void SeePairs(Accumulators& pairs, const ChunkDecay& decay) {
  if constexpr (kChunk == Chunk::kForgets) ForgetBetween<kRowsAreKeys>(pairs, decay);
  HideLater<kRowsAreKeys>(pairs);
}

// What the rows of a thread read of a state; 1 if nothing is forgotten.
template <Chunk kChunk, bool kRowsAreKeys>
__device__ __forceinline__ float2 KeptOfState(const ChunkDecay& decay) {
  if constexpr (kChunk != Chunk::kForgets) return {1, 1};
  return {decay.Kept<kRowsAreKeys>(RowOf(0)), decay.Kept<kRowsAreKeys>(RowOf(2))};
}

// Rows of a left operand times a factor each, rounded again.
template <int kTiles>
__device__ __forceinline__ void ScaleRows(LeftOperand (&x)[kTiles], float2 factor) {
#pragma unroll
  for (int i = 0; i < 16 * kTiles; ++i) {
    uint32_t& pair = x[i / 16][i % 16 / 4][i % 4];
    const float2 elements = UnpackPair(pair);
    const float of_row = i & 1 ? factor.y : factor.x;
    pair = PackPair(elements.x * of_row, elements.y * of_row);
  }
}

template <int kTiles>
__device__ __forceinline__ bool IsFinite(const Accumulators (&x)[kTiles]) {
  float sum = 0;  // NaN if an element is not finite
#pragma unroll
  for (int i = 0; i < 32 * kTiles; ++i) sum = fmaf(x[i / 32][i % 32 / 4][i % 4], 0.0f, sum);
  return sum == 0;
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_READERS_CUH_
