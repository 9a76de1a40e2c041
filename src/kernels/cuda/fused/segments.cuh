// The rows that make states: keys with their values, or, for the adjoint, queries with dO.
#ifndef FAVOR_KERNELS_CUDA_FUSED_SEGMENTS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_SEGMENTS_CUH_

#include "kernels/cuda/fused/rows.cuh"

namespace favor::kernels::cuda::fused {

// The tiles of one segment.
template <bool kAdjoint>
struct Segment {
  __device__ __forceinline__ Segment(const Call& a, const Place& place, int segment)
      : begin(segment * static_cast<int>(a.segment_rows)),
        end(min(static_cast<int>(kAdjoint ? a.query_length : a.key_length),
                begin + static_cast<int>(a.segment_rows))),
        tiles(begin < end ? (end - begin + kTile - 1) / kTile : 0) {
    if (a.decay != nullptr) decay = a.decay + place.group * a.key_length;
    if constexpr (kAdjoint) {
      x = {place.OfQueries(a.q), a.q.row, a.dim, end, nullptr, 0};
      w = {place.OfQueries(a.grad_out), a.grad_out.row, a.value_dim, end, nullptr, 0};
      log_sum = a.log_sum + place.group * a.query_length;
      delta = a.delta + place.group * a.query_length;
    } else {
      x = {place.OfKeys(a.k), a.k.row, a.dim, end, place.Mask(a), a.mask_row};
      w = {place.OfKeys(a.v), a.v.row, a.value_dim, end, place.Mask(a), a.mask_row};
    }
  }

  int begin, end, tiles;
  HeadOfRows x, w;
  const float *log_sum, *delta;
  const float* decay = nullptr;
};

// What a row brings besides its elements, read from global memory ahead of time: the logarithm of
// its share and δ, or for keys 0 and 1; −∞ and 0 if it does not exist. If the call forgets, also
// what the row counts where the state of its chunk will be, at the end of a chunk of keys or the
// beginning of one of queries, and what the whole chunk leaves of a state, as logarithms.
template <bool kAdjoint>
struct RowConstants {
  __device__ __forceinline__ RowConstants(const Place& place, const Segment<kAdjoint>& segment,
                                          int row) {
    if (segment.decay != nullptr && row / kTile * kTile < segment.end) {
      total = segment.decay[min(row / kTile * kTile + kTile, segment.end) - 1];
      if (row < segment.end) kept = kAdjoint ? segment.decay[row] : total - segment.decay[row];
    }
    if constexpr (kAdjoint) {
      if (row >= segment.end) return;
      log_share = (2 * place.log_normalizer - segment.log_sum[row]) * kLog2E;
      weight = segment.delta[row];
    } else {
      if (!segment.x.Exists(row)) return;
      log_share = 0;
      weight = 1;
    }
  }

  float log_share = -kInfinity, weight = 0;
  float kept = 0, total = 0;
};

// Writes bias and weight of the 64 rows of a tile; kThreads / 64 threads share a row. For
// exponential features the bias is what the row adds to its exponents, for flat ones a factor.
// Returns whether the thread's row is a key that may be unusable; its weight, and so the state, is
// NaN then.
template <class Features, int kTiles, int kThreads, bool kAdjoint>
__device__ __forceinline__ bool FindBias(const Call& a, const RowConstants<kAdjoint>& row_constants,
                                         int thread, float norm_factor, uint32_t tiles, float* bias,
                                         float* weight) {
  constexpr int kShare = kThreads / kTile;
  const int row = thread / kShare, part = thread % kShare;
  float square = 0;
  if constexpr (!Features::kFlat || !kAdjoint) {
#pragma unroll
    for (int piece = 0; piece < 8 * kTiles; piece += kShare)
      square += SquareOfPiece(tiles + piece / 8 * kTileBytes, row, part + piece % 8);
#pragma unroll
    for (int step = 1; step < kShare; step *= 2)
      square += __shfl_xor_sync(0xffffffffu, square, step);
  }
  if (part != 0) return false;
  const bool unusable = !kAdjoint && !(square <= a.most_square);
  bias[row] = Features::kFlat ? Exp2(row_constants.log_share)
                              : fmaf(norm_factor, square, row_constants.log_share);
  weight[row] = unusable ? kNan : row_constants.weight;
  return unusable;
}

// Features of a tile from exponents relative to `base`, or from u; adds what they count to z.
// Features that do not exist are 0.
template <class Features>
__device__ __forceinline__ void FindFeatures(Accumulators& e, float argument_scale, float epsilon,
                                             const float (&base)[2], const bool (&exists)[2],
                                             const float* bias, const float* weight,
                                             float (&z)[2]) {
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const float2 count = PairAt(weight, b);
    float2 factor{};
    if constexpr (Features::kFlat) factor = PairAt(bias, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Features::kFlat) {
        const float value = Features::Value(e[b][i] * argument_scale, epsilon);
        e[b][i] = exists[i / 2] ? value * (i & 1 ? factor.y : factor.x) : 0.0f;
      } else {
        e[b][i] = Exp2(e[b][i] - base[i / 2]);
      }
      z[i / 2] = fmaf(e[b][i], i & 1 ? count.y : count.x, z[i / 2]);
    }
  }
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_SEGMENTS_CUH_
