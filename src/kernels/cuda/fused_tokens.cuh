// The side of tokens: a warpgroup with 64 queries, or 64 keys, as rows reads a state, 64 features
// at a time. In a causal pass it also meets the tokens of its own chunk, whose features the side of
// states (fused_causal.cu) leaves in shared memory.
#ifndef FAVOR_KERNELS_CUDA_FUSED_TOKENS_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_TOKENS_CUH_

#include "kernels/cuda/fused_rows.cuh"

namespace favor::kernels::cuda::fused {

enum class Pass : uint8_t { kOutput, kQueryGradients, kKeyGradients };

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

// The rows of a warpgroup: tiles of q or k, and for gradients, behind them, of dO or v.
struct TokenRows {
  uint32_t tiles;
  int first, length;  // rows of the sequence: what lies beyond is not stored
  float argument_scale;
};

// Weights of queries for 64 features, from ω·x, relative to a running maximum ρ; what was summed
// before is scaled to the new one. Adds to the denominators.
template <class Features, Chunk kChunk, int kTiles>
__device__ __forceinline__ void FindWeights(Accumulators& e, const TokenRows& rows, const float* c,
                                            const float* z, float epsilon, float (&rho)[2],
                                            float (&denominator)[2], Accumulators (&sum)[kTiles],
                                            Accumulators& pairs, bool first) {
  float base[2] = {0, 0}, factor[2];
  if constexpr (!Features::kFlat) {
    const bool moves = MoveMaximum(e, rows.argument_scale, c, rho, base, factor);
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
template <class Features, Chunk kChunk, int kTiles, class Release>
__device__ __forceinline__ bool ReadState(const Call& a, const Place& place,
                                          const StateTiles& state, const TokenRows& rows,
                                          const Release& release) {
  LeftOperand q[kTiles];
  LoadRows(q, rows.tiles);
  release();
  constexpr int kWide = kTiles * kTileBytes;
  float rho[2] = {-kInfinity, -kInfinity}, denominator[2] = {0, 0};
  if (Features::kFlat) rho[0] = rho[1] = 0;
  Accumulators sum[kTiles], pairs;
  LeftOperand weights;
#pragma unroll 1
  for (int block = 0; block < state.blocks; ++block) {
    Accumulators e;
    BeginProducts(e);
    RowProduct(e, q, state.omega + block * kWide, false);
    EndProducts(e);
    FindWeights<Features, kChunk>(e, rows, state.c + block * kTile, state.z + block * kTile,
                                  a.epsilon, rho, denominator, sum, pairs, block == 0);
    ToLeft(weights, e);
    BeginProducts(sum, pairs);
    SumRows(sum, weights, state.s + block * kWide, block > 0);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kPlain>(pairs, weights, state.features + block * kTileBytes, block > 0);
    EndProducts(sum, pairs);
  }
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

// Gradients of 64 queries.
template <class Features, Chunk kChunk, int kTiles, class Release>
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
#pragma unroll 1
  for (int block = 0; block < state.blocks; ++block) {
    Accumulators e, slopes;
    BeginProducts(e, slopes);
    RowProduct(e, q, state.omega + block * kWide, false);
    RowProduct(slopes, grad_out, state.s + block * kWide, false);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kTransposed>(slopes, gains, state.features + block * kTileBytes, true);
    EndProducts(e, slopes);
    largest = fmaxf(largest,
                    FindShares<Features, true>(e, rows, state.c + block * kTile, a.epsilon, bias));
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const float2 count = PairAt(state.z + block * kTile, b);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        e[b][i] *= fmaf(delta[i / 2], i & 1 ? count.y : count.x, slopes[b][i]);
    }
    LeftOperand changes;
    ToLeft(changes, e);
    BeginProducts(gradient);
    SumRows(gradient, changes, state.omega + block * kWide, block > 0);
    EndProducts(gradient);
  }
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

// Gradients of the values of 64 keys, which read the state of the adjoint. Here and below, returns
// whether the segment is lost.
template <class Features, Chunk kChunk, int kTiles>
__device__ __forceinline__ bool ReadForValues(const Call& a, const Place& place,
                                              const StateTiles& state, const TokenRows& rows,
                                              const float (&bias)[2],
                                              const LeftOperand (&k)[kTiles]) {
  constexpr int kWide = kTiles * kTileBytes;
  Accumulators gradient[kTiles], pairs;
  LeftOperand weights;
#pragma unroll 1
  for (int block = 0; block < state.blocks; ++block) {
    Accumulators e;
    BeginProducts(e);
    RowProduct(e, k, state.omega + block * kWide, false);
    EndProducts(e);
    FindShares<Features, false>(e, rows, state.c + block * kTile, a.epsilon, bias);
    ToLeft(weights, e);
    BeginProducts(gradient, pairs);
    SumRows(gradient, weights, state.s + block * kWide, block > 0);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kPlain>(pairs, weights, state.features + block * kTileBytes, block > 0);
    EndProducts(gradient, pairs);
  }
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
template <class Features, Chunk kChunk, int kTiles>
__device__ __forceinline__ bool ReadForKeys(const Call& a, const Place& place,
                                            const StateTiles& state, const TokenRows& rows,
                                            const float (&bias)[2], const LeftOperand (&k)[kTiles],
                                            LeftOperand (&v)[kTiles]) {
  constexpr int kWide = kTiles * kTileBytes;
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
#pragma unroll 1
  for (int block = 0; block < state.blocks; ++block) {
    Accumulators e, slopes;
    BeginProducts(e, slopes);
    RowProduct(e, k, state.omega + block * kWide, false);
    RowProduct(slopes, v, state.s + block * kWide, false);
    if constexpr (kChunk != Chunk::kNone)
      Product<Right::kTransposed>(slopes, gains, state.features + block * kTileBytes, true);
    EndProducts(e, slopes);
    if constexpr (!Features::kFlat)
      largest = fmaxf(
          largest, FindShares<Features, true>(e, rows, state.c + block * kTile, a.epsilon, bias));
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
    LeftOperand changes;
    ToLeft(changes, e);
    BeginProducts(gradient);
    SumRows(gradient, changes, state.omega + block * kWide, block > 0);
    EndProducts(gradient);
  }
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
template <class Features, Chunk kChunk, int kTiles, class Release>
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
  bool lost = ReadForValues<Features, kChunk>(a, place, state, rows, bias, k);
  if constexpr (!kKeeps) {
    LoadRows(v, rows.tiles + kTiles * kTileBytes);
    release();
  }
  lost |= ReadForKeys<Features, kChunk>(a, place, state, rows, bias, k, v);
  return lost;
}

// One pass over the rows of a warpgroup.
template <class Features, Pass kPass, Chunk kChunk, int kTiles, class Release>
__device__ __forceinline__ bool ReadRows(const Call& a, const Place& place, const StateTiles& state,
                                         const TokenRows& rows, const Release& release) {
  if constexpr (kPass == Pass::kOutput)
    return ReadState<Features, kChunk, kTiles>(a, place, state, rows, release);
  if constexpr (kPass == Pass::kQueryGradients)
    return ReadForQueries<Features, kChunk, kTiles>(a, place, state, rows, release);
  if constexpr (kPass == Pass::kKeyGradients)
    return ReadForKeysAndValues<Features, kChunk, kTiles>(a, place, state, rows, release);
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
