// Gradients: queries read a state of keys, keys that of the adjoint.
#ifndef FAVOR_KERNELS_CUDA_FUSED_GRADIENTS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_GRADIENTS_CUH_

#include "kernels/cuda/fused/readers.cuh"

namespace favor::kernels::cuda::fused {

// Weights of tokens for 64 features whose rows have a known share; for flat features x becomes
// their slope. Returns the largest exponent.
template <class Features, bool kSlopes>
__device__ __forceinline__ float FindShares(Accumulators& x, const TokenRows& rows, const float* c,
                                            float epsilon, const float (&bias)[2]) {
  float largest = -kInfinity;
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    float2 more{};
    if constexpr (!Features::kFlat) more = PairAt(c, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Features::kFlat) {
        const float u = x[b][i] * rows.argument_scale;
        x[b][i] =
            (kSlopes ? Features::Slope(u, epsilon) : Features::Value(u, epsilon)) * bias[i / 2];
      } else {
        const float exponent =
            fmaf(x[b][i], rows.argument_scale, (i & 1 ? more.y : more.x) + bias[i / 2]);
        largest = fmaxf(largest, exponent);
        x[b][i] = Exp2(exponent);
      }
    }
  }
  return largest;
}

template <class Features>
__device__ __forceinline__ float NaturalScale(float argument_scale) {
  return Features::kFlat ? argument_scale : argument_scale * kLn2;
}

// Sums the gradients of rows x over the features: exponents x·ωᵀ of a block become shares by
// share(block, e), and with slopes w·Sᵀ + gains·Fᵀ the gradients of exponents by
// change(block, e, slopes), whose products with ω are summed. Exponents of the next block are
// multiplied with the sums of the one before, if the number of blocks is known; slopes while shares
// are found.
template <Chunk kChunk, int kTiles, int kBlocks, class X, class Share, class Change>
__device__ __forceinline__ void SumChanges(const StateTiles& state, const X& x,
                                           const LeftOperand (&w)[kTiles], const LeftOperand& gains,
                                           Accumulators (&gradient)[kTiles], const Share& share,
                                           const Change& change) {
  constexpr int kWide = kTiles * kTileBytes;
  constexpr bool kAhead = kBlocks > 0;
  Accumulators e, slopes;
  LeftOperand changes;
  const auto begin_slopes = [&](int block) {
    RowProduct(slopes, w, state.s + block * kWide, false);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kTransposed>(slopes, gains, state.features + block * kTileBytes, true);
    CommitProducts();
  };
  const auto begin_exponents = [&](int block) {
    RowProduct<kTiles>(e, x, state.omega + block * kWide, false);
  };
  if constexpr (kAhead) {
    BeginProducts(e);
    begin_exponents(0);
    CommitProducts();
  }
  ForBlocks<kBlocks>(state, [&](int block, bool is_last) {
    if constexpr (kAhead) {
      WaitForProducts<0>(e, gradient, changes);
      BeginProducts(slopes);
      begin_slopes(block);
    } else {
      BeginProducts(e, slopes);
      begin_exponents(block);
      CommitProducts();
      begin_slopes(block);
      WaitForProducts<1>(e);
    }
    share(block, e);
    WaitForProducts<0>(slopes);
    change(block, e, slopes);
    ToLeft(changes, e);
    BeginProducts(gradient, e);
    SumRows(gradient, changes, state.omega + block * kWide, block > 0);
    if (kAhead && !is_last) begin_exponents(block + 1);
    CommitProducts();
    if constexpr (!kAhead) WaitForProducts<0>(gradient);
  });
  if constexpr (kAhead) WaitForProducts<0>(gradient, changes);
}

// Gradients of 64 queries. Here and below, kBlocks is as in ForBlocks.
template <class Features, Chunk kChunk, int kTiles, int kBlocks, class Release>
__device__ __forceinline__ bool ReadForQueries(const Call& a, const Place& place,
                                               const StateTiles& state, const TokenRows& rows,
                                               const Release& release) {
  constexpr int kWide = kTiles * kTileBytes;
  LeftOperand q[kTiles], grad_out[kTiles];
  LoadRows(q, rows.tiles);
  LoadRows(grad_out, rows.tiles + kWide);
  release();
  float2 squares{};
  if constexpr (!Features::kFlat) squares = SquaresOfRows(q);
  float bias[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = rows.first + RowOf(2 * half);
    const bool exists = row < rows.length;
    delta[half] = exists ? a.delta[place.group * a.query_length + row] : 0.0f;
    bias[half] = exists ? LogShare(a, place, row) : -kInfinity;
    if (Features::kFlat) bias[half] = Exp2(bias[half]);
    if (!Features::kFlat) bias[half] += NormFactor(a) * (half == 0 ? squares.x : squares.y);
  }
  LeftOperand gains;  // dO_i·v_j + δ_i of pairs
  if constexpr (kChunk != Chunk::kNone) {
    Accumulators t;
    BeginProducts(t);
    RowProduct(t, grad_out, state.values, false);
    EndProducts(t);
#pragma unroll
    for (int i = 0; i < 32; ++i) t[i / 4][i % 4] += delta[i % 4 / 2];
    SeePairs<kChunk, false>(t, state.decay);
    ToLeft(gains, t);
  }
  if constexpr (kChunk == Chunk::kForgets) {  // from here on they meet the state alone
    const float2 kept = KeptOfState<kChunk, false>(state.decay);
    ScaleRows(grad_out, kept);
    delta[0] *= kept.x;
    delta[1] *= kept.y;
  }
  Accumulators gradient[kTiles];
  float largest = -kInfinity;
  const auto share = [&](int block, Accumulators& e) {
    largest = fmaxf(largest,
                    FindShares<Features, true>(e, rows, state.c + block * kTile, a.epsilon, bias));
  };
  const auto change = [&](int block, Accumulators& e, const Accumulators& slopes) {
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const float2 count = PairAt(state.z + block * kTile, b);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        e[b][i] *= fmaf(delta[i / 2], i & 1 ? count.y : count.x, slopes[b][i]);
    }
  };
  SumChanges<kChunk, kTiles, kBlocks>(state, q, grad_out, gains, gradient, share, change);
  const float scale = NaturalScale<Features>(rows.argument_scale);
  const float factor[2] = {scale, scale};
  Scale(gradient, factor);
  StoreRows(gradient, a.grad_q, place.OfQueries(a.grad_q), rows.first, rows.length, a.dim);
  return largest > kMostExponent || !IsFinite(gradient);
}

// Adds factor · x for rows x that are a left operand.
template <int kTiles>
__device__ __forceinline__ void AddRows(Accumulators (&sum)[kTiles], const LeftOperand (&x)[kTiles],
                                        const float (&factor)[2]) {
#pragma unroll
  for (int b = 0; b < 8 * kTiles; ++b) {
    float(&block)[4] = sum[b / 8][b % 8];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 pair = UnpackPair(x[b / 8][b % 8 / 2][(b & 1) * 2 + half]);
      block[2 * half] = fmaf(factor[half], pair.x, block[2 * half]);
      block[2 * half + 1] = fmaf(factor[half], pair.y, block[2 * half + 1]);
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void AddRows(Accumulators (&sum)[kTiles], uint32_t tiles,
                                        const float (&factor)[2]) {
  LeftOperand x[kTiles];
  LoadRows(x, tiles);
  AddRows(sum, x, factor);
}

// Gradients of the values of 64 keys, which read the state of the adjoint. Here and below, k are
// left operands or the first of their tiles. Returns whether the segment is lost.
template <class Features, Chunk kChunk, int kTiles, int kBlocks, class Keys>
__device__ __forceinline__ bool ReadForValues(const Call& a, const Place& place,
                                              const StateTiles& state, const TokenRows& rows,
                                              const float (&bias)[2], const Keys& k) {
  constexpr int kWide = kTiles * kTileBytes;
  Accumulators gradient[kTiles], pairs;
  LeftOperand weights;
  ForBlocks<kBlocks>(state, [&](int block, bool) {
    Accumulators e;
    BeginProducts(e);
    RowProduct<kTiles>(e, k, state.omega + block * kWide, false);
    EndProducts(e);
    FindShares<Features, false>(e, rows, state.c + block * kTile, a.epsilon, bias);
    ToLeft(weights, e);
    BeginProducts(gradient, pairs);
    SumRows(gradient, weights, state.s + block * kWide, block > 0);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kPlain>(pairs, weights, state.features + block * kTileBytes, block > 0);
    EndProducts(gradient, pairs);
  });
  if constexpr (kChunk != Chunk::kNone) {
    if constexpr (kChunk == Chunk::kForgets) {
      const float2 kept = KeptOfState<kChunk, true>(state.decay);
      const float factor[2] = {kept.x, kept.y};
      Scale(gradient, factor);
    }
    SeePairs<kChunk, true>(pairs, state.decay);
    ToLeft(weights, pairs);
    BeginProducts(gradient);
    SumRows(gradient, weights, state.values, true);
    EndProducts(gradient);
  }
  StoreRows(gradient, a.grad_v, place.OfKeys(a.grad_v), rows.first, rows.length, a.value_dim);
  return !IsFinite(gradient);
}

// Gradients of 64 keys, whose rows lie in shared memory.
template <class Features, Chunk kChunk, int kTiles, int kBlocks, class Keys>
__device__ __forceinline__ bool ReadForKeys(const Call& a, const Place& place,
                                            const StateTiles& state, const TokenRows& rows,
                                            const float (&bias)[2], const Keys& k,
                                            LeftOperand (&v)[kTiles]) {
  LeftOperand gains;  // dO_i·v_j + δ_i of pairs
  if constexpr (kChunk != Chunk::kNone) {
    Accumulators t;
    BeginProducts(t);
    RowProduct(t, v, state.values, false);
    EndProducts(t);
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const float2 delta = PairAt(state.delta, b);
#pragma unroll
      for (int i = 0; i < 4; ++i) t[b][i] += i & 1 ? delta.y : delta.x;
    }
    SeePairs<kChunk, true>(t, state.decay);
    ToLeft(gains, t);
  }
  const float2 kept = KeptOfState<kChunk, true>(state.decay);
  // From here on values meet the state alone.
  if constexpr (kChunk == Chunk::kForgets) ScaleRows(v, kept);
  Accumulators gradient[kTiles];
  float largest = -kInfinity, weight_sum[2] = {0, 0};  // of gradients of exponents
  const auto share = [&](int block, Accumulators& e) {
    if constexpr (!Features::kFlat)
      largest = fmaxf(
          largest, FindShares<Features, true>(e, rows, state.c + block * kTile, a.epsilon, bias));
  };
  const auto change = [&](int block, Accumulators& e, const Accumulators& slopes) {
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const float2 count = PairAt(state.z + block * kTile, b);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float gain =
            fmaf(i / 2 == 0 ? kept.x : kept.y, i & 1 ? count.y : count.x, slopes[b][i]);
        if constexpr (Features::kFlat) {
          const float u = e[b][i] * rows.argument_scale, share = bias[i / 2] * gain;
          e[b][i] = Features::Slope(u, a.epsilon) * share;
          if constexpr (kChunk == Chunk::kForgets)
            weight_sum[i / 2] = fmaf(Features::Value(u, a.epsilon), share, weight_sum[i / 2]);
        } else {
          e[b][i] *= gain;
          weight_sum[i / 2] += e[b][i];
        }
      }
    }
  };
  SumChanges<kChunk, kTiles, kBlocks>(state, k, v, gains, gradient, share, change);
  const float scale = NaturalScale<Features>(rows.argument_scale);
  const float factor[2] = {scale, scale};
  Scale(gradient, factor);
  if constexpr (!Features::kFlat || kChunk == Chunk::kForgets) {
    weight_sum[0] = QuadSum(weight_sum[0]);
    weight_sum[1] = QuadSum(weight_sum[1]);
  }
  if constexpr (!Features::kFlat) {
    const float norm = a.norm_slope * a.sqrt_scale * a.sqrt_scale;
    const float of_norms[2] = {norm * weight_sum[0], norm * weight_sum[1]};
    AddRows(gradient, k, of_norms);
  }
  if constexpr (kChunk == Chunk::kForgets) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = rows.first + RowOf(2 * half);
      if (a.log_weights != nullptr && row < rows.length && (threadIdx.x & 3) == 0)
        a.log_weights[place.group * a.key_length + row] = weight_sum[half];
    }
  }
  StoreRows(gradient, a.grad_k, place.OfKeys(a.grad_k), rows.first, rows.length, a.dim);
  return largest > kMostExponent || !IsFinite(gradient);
}

// What a row of keys adds to its exponents, or a factor of flat features.
template <class Features, int kTiles>
__device__ __forceinline__ void FindKeyBias(const Call& a, const Place& place,
                                            const TokenRows& rows, const LeftOperand (&k)[kTiles],
                                            float (&bias)[2]) {
  const float* mask = place.Mask(a);
  float2 squares{};
  if constexpr (!Features::kFlat) squares = SquaresOfRows(k);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = rows.first + RowOf(2 * half);
    const bool exists = row < rows.length && (mask == nullptr || mask[row * a.mask_row] != 0.0f);
    const float norm = NormFactor(a) * (half == 0 ? squares.x : squares.y);
    bias[half] = Features::kFlat ? (exists ? 1.0f : 0.0f) : (exists ? norm : -kInfinity);
  }
}

// Gradients of 64 keys, and of their values: two sweeps over the features, because the sums of both
// do not fit in registers at a time. Nor do wide rows of both: they are read again.
template <class Features, Chunk kChunk, int kTiles, int kBlocks, class Release>
__device__ __forceinline__ bool ReadForKeysAndValues(const Call& a, const Place& place,
                                                     const StateTiles& state, const TokenRows& rows,
                                                     const Release& release) {
  constexpr bool kKeeps = kTiles == 1;
  LeftOperand k[kTiles], v[kTiles];
  LoadRows(k, rows.tiles);
  if constexpr (kKeeps) {
    LoadRows(v, rows.tiles + kTiles * kTileBytes);
    release();
  }
  float bias[2];
  FindKeyBias<Features>(a, place, rows, k, bias);
  bool lost = ReadForValues<Features, kChunk, kTiles, kBlocks>(a, place, state, rows, bias, k);
  if constexpr (!kKeeps) {
    LoadRows(v, rows.tiles + kTiles * kTileBytes);
    release();
  }
  lost |= ReadForKeys<Features, kChunk, kTiles, kBlocks>(a, place, state, rows, bias, k, v);
  return lost;
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_GRADIENTS_CUH_
