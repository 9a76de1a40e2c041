// Outputs: queries read a state of keys.
#ifndef FAVOR_KERNELS_CUDA_FUSED_OUTPUTS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_OUTPUTS_CUH_

#include "kernels/cuda/fused/readers.cuh"

namespace favor::kernels::cuda::fused {

// Weights of queries for 64 features, from ω·x, relative to a running maximum ρ; what was summed
// before is scaled to the new one, after wait(). Adds to the denominators.
template <class Features, Chunk kChunk, int kTiles, class Wait>
__device__ __forceinline__ void FindWeights(Accumulators& e, const TokenRows& rows, const float* c,
                                            const float* z, float epsilon, float (&rho)[2],
                                            float (&denominator)[2], Accumulators (&sum)[kTiles],
                                            Accumulators& pairs, bool first, const Wait& wait) {
  float base[2] = {0, 0}, factor[2];
  if constexpr (Features::kFlat) {
    wait();
  } else {
    const bool moves = MoveMaximum(e, rows.argument_scale, c, rho, base, factor);
    wait();
    if (moves && !first) {
      denominator[0] *= factor[0];
      denominator[1] *= factor[1];
      Scale(sum, factor);
      if constexpr (kChunk != Chunk::kNone) Scale(pairs, factor);
    }
  }
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const float2 count = PairAt(z, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Features::kFlat) {
        e[b][i] = Features::Value(e[b][i] * rows.argument_scale, epsilon);
      } else {
        e[b][i] = Exp2(e[b][i] - base[i / 2]);
      }
      denominator[i / 2] = fmaf(e[b][i], i & 1 ? count.y : count.x, denominator[i / 2]);
    }
  }
}

// Divides by the denominators and stores rows and their log_sum. Returns whether a row has no
// usable denominator or is not finite: then nothing of this segment counts.
template <class Features, int kTiles>
__device__ __forceinline__ bool StoreOutputs(const Call& a, const Place& place,
                                             const TokenRows& rows, const LeftOperand (&q)[kTiles],
                                             const float (&rho)[2], const float (&denominator)[2],
                                             Accumulators (&sum)[kTiles]) {
  bool lost = false;
  float share[2], total[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] = QuadSum(denominator[half]);
    lost |= rows.first + RowOf(2 * half) < rows.length &&
            !(total[half] > (Features::kFlat ? 0.0f : kLeastDenominator));
    share[half] = Reciprocal(total[half]);
  }
  const float2 squares = SquaresOfRows(q);
  lost |= !(squares.x + squares.y <= a.most_square);
  if (a.log_sum != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = rows.first + RowOf(2 * half);
      const float norm =
          Features::kFlat ? 0.0f : NormFactor(a) * (half == 0 ? squares.x : squares.y);
      if (row < rows.length && (threadIdx.x & 3) == 0) {
        a.log_sum[place.group * a.query_length + row] =
            (rho[half] + Log2(total[half]) + norm) * kLn2 + 2 * place.log_normalizer;
      }
    }
  }
  Scale(sum, share);
  lost |= !IsFinite(sum);
  StoreRows(sum, a.out, place.OfQueries(a.out), rows.first, rows.length, a.value_dim);
  return lost;
}

// Outputs of 64 queries. Here and below, release() is called once the tiles of the rows have been
// read.
template <class Features, Chunk kChunk, int kTiles, int kBlocks, class Release>
__device__ __forceinline__ bool ReadState(const Call& a, const Place& place,
                                          const StateTiles& state, const TokenRows& rows,
                                          const Release& release) {
  LeftOperand q[kTiles];
  LoadRows(q, rows.tiles);
  release();
  constexpr int kWide = kTiles * kTileBytes;
  float rho[2] = {-kInfinity, -kInfinity}, denominator[2] = {0, 0};
  if (Features::kFlat) rho[0] = rho[1] = 0;
  // Exponents of the next block are multiplied with the sums of the one before, if the number of
  // blocks is known.
  constexpr bool kAhead = kBlocks > 0;
  Accumulators sum[kTiles], pairs, e;
  LeftOperand weights;
  const auto begin_exponents = [&](int block) {
    RowProduct(e, q, state.omega + block * kWide, false);
    CommitProducts();
  };
  if constexpr (kAhead) {
    BeginProducts(e);
    begin_exponents(0);
  }
  ForBlocks<kBlocks>(state, [&](int block, bool is_last) {
    if (!kAhead) {
      BeginProducts(e);
      begin_exponents(block);
    }
    const bool sums_run = kAhead && block > 0;
    if (sums_run) {
      WaitForProducts<1>(e);
    } else {
      WaitForProducts<0>(e);
    }
    FindWeights<Features, kChunk>(e, rows, state.c + block * kTile, state.z + block * kTile,
                                  a.epsilon, rho, denominator, sum, pairs, block == 0, [&] {
                                    if (sums_run) WaitForProducts<0>(sum, pairs, weights);
                                  });
    ToLeft(weights, e);
    BeginProducts(e, sum, pairs);
    if (kAhead && !is_last) begin_exponents(block + 1);
    SumRows(sum, weights, state.s + block * kWide, block > 0);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kPlain>(pairs, weights, state.features + block * kTileBytes, block > 0);
    CommitProducts();
    if (!kAhead) WaitForProducts<0>(sum, pairs);
  });
  if constexpr (kAhead) WaitForProducts<0>(sum, pairs, weights);
  if constexpr (kChunk != Chunk::kNone) {
    if constexpr (kChunk == Chunk::kForgets) {
      const float2 kept = KeptOfState<kChunk, false>(state.decay);
      const float factor[2] = {kept.x, kept.y};
      denominator[0] *= kept.x;
      denominator[1] *= kept.y;
      Scale(sum, factor);
    }
    SeePairs<kChunk, false>(pairs, state.decay);
#pragma unroll
    for (int i = 0; i < 32; ++i) denominator[i % 4 / 2] += pairs[i / 4][i % 4];
    ToLeft(weights, pairs);
    BeginProducts(sum);
    SumRows(sum, weights, state.values, true);
    EndProducts(sum);
  }
  return StoreOutputs<Features>(a, place, rows, q, rho, denominator, sum);
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_OUTPUTS_CUH_
