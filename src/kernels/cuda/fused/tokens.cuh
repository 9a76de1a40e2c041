// The side of tokens: a warpgroup with 64 queries, or 64 keys, as rows reads a state, 64 features
// at a time. In a causal pass it also meets the tokens of its own chunk, whose features the side of
// states (state_side.cuh) leaves in shared memory.
#ifndef FAVOR_KERNELS_CUDA_FUSED_TOKENS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_TOKENS_CUH_

#include "kernels/cuda/fused/gradients.cuh"
#include "kernels/cuda/fused/outputs.cuh"

namespace favor::kernels::cuda::fused {

enum class Pass : uint8_t { kOutput, kQueryGradients, kKeyGradients };

// One pass over the rows of a warpgroup. kBlocks: blocks of features, or 0 if it is not known.
template <class Features, Pass kPass, Chunk kChunk, int kTiles, int kBlocks, class Release>
__device__ __forceinline__ bool ReadRows(const Call& a, const Place& place, const StateTiles& state,
                                         const TokenRows& rows, const Release& release) {
  if constexpr (kPass == Pass::kOutput)
    return ReadState<Features, kChunk, kTiles, kBlocks>(a, place, state, rows, release);
  if constexpr (kPass == Pass::kQueryGradients)
    return ReadForQueries<Features, kChunk, kTiles, kBlocks>(a, place, state, rows, release);
  if constexpr (kPass == Pass::kKeyGradients)
    return ReadForKeysAndValues<Features, kChunk, kTiles, kBlocks>(a, place, state, rows, release);
}

// The rows that a warpgroup loads for itself: of q or k, and for gradients those of dO or v.
template <Pass kPass, int kTiles>
struct TokenSource {
  static constexpr bool kKeys = kPass == Pass::kKeyGradients;
  static constexpr bool kTwo = kPass != Pass::kOutput;

  __device__ TokenSource(const Call& a, const Place& place)
      : length(static_cast<int>(kKeys ? a.key_length : a.query_length)),
        copy_x(
            kKeys ? HeadOfRows{place.OfKeys(a.k), a.k.row, a.dim, length, place.Mask(a), a.mask_row}
                  : HeadOfRows{place.OfQueries(a.q), a.q.row, a.dim, length, nullptr, 0},
            threadIdx.x % kGroupThreads),
        copy_w(kKeys ? HeadOfRows{place.OfKeys(a.v), a.v.row, a.value_dim, length, place.Mask(a),
                                  a.mask_row}
                     : HeadOfRows{place.OfQueries(a.grad_out), a.grad_out.row, a.value_dim, length,
                                  nullptr, 0},
               threadIdx.x % kGroupThreads) {}

  // Begins to copy to the tiles of one array, or of two that follow each other.
  __device__ void Copy(uint32_t tiles, int first) const {
    if (first < length) {
      copy_x.Copy(tiles, first);
      if constexpr (kTwo) copy_w.Copy(tiles + kTiles * kTileBytes, first);
    }
    CommitCopies();
  }

  int length;
  TileCopier<kTiles, kGroupThreads> copy_x, copy_w;
};

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_TOKENS_CUH_
