// Causal passes. A block goes through the chunks of one segment, 64 tokens each; its three
// warpgroups work on two chunks at a time. Two of them are the side of states: they hold the state
// in registers, features as rows, leave a copy of it and the features of chunk t in shared memory
// and move it on. The third is the side of tokens: it reads what they left of chunk t − 1.
// Gradients of keys go through the chunks from the end, with the state of the adjoint.
//
// If the call forgets, the features of a chunk and the state before it have a common maximum C, as
// if nothing were forgotten: readers count what is left of the state, and what is left of each key
// where they stand (MATH: every factor is at most 1). Then the state becomes that of the chunk's
// end: its sums are scaled by what is left of them.
#ifndef FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_

#include "kernels/cuda/fused/segments.cuh"
#include "kernels/cuda/fused/tokens.cuh"

namespace favor::kernels::cuda::fused {

constexpr int kStateThreads = 2 * kGroupThreads, kThreads = 3 * kGroupThreads;

// What lies in shared memory, in tiles: of the chunk in work and the one before. Of wide rows there
// is one copy of X only.
template <int kTiles>
struct Layout {
  static constexpr int kBlocks = MostBlocks(kTiles), kWide = kBlocks * kTiles;
  static constexpr int kOfX = kTiles == 1 ? 2 : 1;
  static constexpr int kS = kWide, kFeatures = kS + 2 * kWide, kX = kFeatures + 2 * kBlocks,
                       kW = kX + kOfX * kTiles, kTokens = kW + 3 * kTiles,
                       kAll = kTokens + 2 * kTiles;

  __device__ explicit Layout(uint32_t first) : omega(first) {}
  __device__ uint32_t Of(int tile) const { return omega + tile * kTileBytes; }
  __device__ uint32_t S(int t) const { return Of(kS + (t & 1) * kWide); }
  __device__ uint32_t FeatureTiles(int t) const { return Of(kFeatures + (t & 1) * kBlocks); }
  __device__ uint32_t X(int t) const { return Of(kX + t % kOfX * kTiles); }
  __device__ uint32_t W(int t) const { return Of(kW + t % 3 * kTiles); }
  __device__ uint32_t Tokens() const { return Of(kTokens); }

  uint32_t omega;
};

template <int kTiles>
struct Tables {
  static constexpr int kFeatures = MostBlocks(kTiles) * kTile;

  float c[2][kFeatures], z[2][kFeatures];  // see StateTiles
  float bias[kTile], weight[2][kTile];     // see FindBias
  float kept[kTile];  // what is left of a row at the end of its chunk; used if the call forgets
};

// Tables lie behind the tiles, which leaves all of the shared memory that a block can have to them:
// dynamic shared memory begins at a multiple of 1024 bytes if there is no other.
template <int kTiles>
FAVOR_HOST_DEVICE constexpr int BytesOf() {
  return Layout<kTiles>::kAll * kTileBytes + static_cast<int>(sizeof(Tables<kTiles>));
}

// 64 features of a state; each thread of a quad has all of z.
template <int kTiles>
struct State {
  Accumulators s[kTiles];
  float c[2], z[2];
  float mass[2];  // Σ w, which z is too if rows are keys; used by adjoints that forget
};

template <class Features, int kTiles>
__device__ __forceinline__ void Load(const Call& a, const Place& place, int64_t at, int first,
                                     State<kTiles>& state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = first + RowOf(2 * half);
    const int64_t row = at * a.features + r;
    const bool exists = r < a.features;
    state.z[half] = exists ? a.z[row] : 0.0f;
    state.c[half] = -kInfinity;
    if (exists) state.c[half] = a.c[row] * kLog2E - Offset(a, place, r);
    state.mass[half] = state.c[half] > -kInfinity ? 1.0f : 0.0f;
#pragma unroll
    for (int b = 0; b < 8 * kTiles; ++b) {
      const int column = ColumnOf(b, 0);
      float2 pair{};
      if (exists && column < a.value_dim)
        pair = *reinterpret_cast<const float2*>(a.s + row * a.value_dim + column);
      state.s[b / 8][b % 8][2 * half] = pair.x;
      state.s[b / 8][b % 8][2 * half + 1] = pair.y;
    }
  }
}

// Products of ω with the rows of a chunk.
template <int kTiles>
__device__ __forceinline__ void FindProducts(Accumulators& e, const Layout<kTiles>& layout, int t,
                                             int block) {
  LeftOperand omega[kTiles];
  LoadRows(omega, layout.omega + block * kTiles * kTileBytes);
  BeginProducts(e);
  RowProduct(e, omega, layout.X(t), false);
  EndProducts(e);
}

// Sums of less than this, relative to a maximum of rows that are forgotten, get a maximum of their
// own; of less than kLeastMass digits may be lost.
constexpr float kSmallMass = 0x1p-20f, kLeastMass = 0x1p-100f;

// Lowers maxima that decay has left behind, by powers of 2. Returns whether digits may be lost.
template <int kTiles>
__device__ __forceinline__ bool LowerMaximum(State<kTiles>& state, float (&mass)[2]) {
  bool is_small = false, lost = false;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    is_small |= state.c[half] > -kInfinity && !(mass[half] >= kSmallMass);
  if (!__any_sync(0xffffffffu, is_small)) return false;
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = state.c[half] > -kInfinity;
    lost |= exists && !(mass[half] >= kLeastMass);
    const float fall =
        exists && mass[half] >= kLeastMass ? fminf(0.0f, floorf(Log2(mass[half]))) : 0.0f;
    factor[half] = Exp2(-fall);
    state.c[half] += fall;
    state.z[half] *= factor[half];
    state.mass[half] *= factor[half];
  }
  Scale(state.s, factor);
  return lost;
}

// What rows of a chunk count where the state will be, from what they count where they stand.
// Returns sums over the thread's columns in `count` (z) and `mass`.
__device__ __forceinline__ void KeepRows(Accumulators& e, const float* kept, const float* weight,
                                         float (&count)[2], float (&mass)[2]) {
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const float2 left = PairAt(kept, b), own = PairAt(weight, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      e[b][i] *= i & 1 ? left.y : left.x;
      count[i / 2] = fmaf(e[b][i], i & 1 ? own.y : own.x, count[i / 2]);
      mass[i / 2] += e[b][i];
    }
  }
}

// Leaves the state and the features of a chunk, of whose exponents `e` are the products, for the
// side of tokens, and moves the state on, of which the chunk leaves `kept`. Returns whether digits
// may be lost.
template <class Features, bool kAdjoint, bool kForgets, int kTiles>
__device__ __forceinline__ bool AddChunk(const Layout<kTiles>& layout, Tables<kTiles>& tables,
                                         int t, int block, const float (&offset)[2],
                                         float argument_scale, float epsilon, float kept,
                                         Accumulators& e, State<kTiles>& state) {
  float base[2] = {0, 0}, factor[2];
  if constexpr (!Features::kFlat) {
    if (MoveMaximum(e, argument_scale, tables.bias, state.c, base, factor)) {
      Scale(state.s, factor);
      state.z[0] *= factor[0];
      state.z[1] *= factor[1];
      state.mass[0] *= factor[0];
      state.mass[1] *= factor[1];
    }
  }
  LeftOperand left;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    ToLeft(left, state.s[i]);
    StoreLeft(left, layout.S(t) + (block * kTiles + i) * kTileBytes);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if ((threadIdx.x & 3) == 0) {
      tables.z[t & 1][block * kTile + RowOf(2 * half)] = state.z[half];
      tables.c[t & 1][block * kTile + RowOf(2 * half)] = state.c[half] + 2 * offset[half];
    }
  }
  float count[2] = {0, 0};
  FindFeatures<Features>(e, argument_scale, epsilon, base,
                         {offset[0] > -kInfinity, offset[1] > -kInfinity}, tables.bias,
                         tables.weight[t & 1], count);
  ToLeft(left, e);
  StoreLeft(left, layout.FeatureTiles(t) + block * kTileBytes);
  float mass[2] = {0, 0};
  if constexpr (kForgets) {
    count[0] = count[1] = 0;
    KeepRows(e, tables.kept, tables.weight[t & 1], count, mass);
    ToLeft(left, e);
    const float factor[2] = {kept, kept};
    Scale(state.s, factor);
    state.z[0] *= kept;
    state.z[1] *= kept;
  }
  BeginProducts(state.s);
  SumRows(state.s, left, layout.W(t), true);
  EndProducts(state.s);
#pragma unroll
  for (int half = 0; half < 2; ++half) state.z[half] += QuadSum(count[half]);
  if constexpr (!kForgets || Features::kFlat) {
    return false;
  } else if constexpr (kAdjoint) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      state.mass[half] = state.mass[half] * kept + QuadSum(mass[half]);
    return LowerMaximum(state, state.mass);
  } else {
    return LowerMaximum(state, state.z);
  }
}

template <class Features, bool kAdjoint, bool kForgets, int kTiles, int kBlocks>
__device__ __forceinline__ void StateSide(const Call& a, const Place& place,
                                          const Layout<kTiles>& layout, Tables<kTiles>& tables,
                                          const Segment<kAdjoint>& segment, int64_t at) {
  static_assert(kTiles == 1 || kBlocks == 1, "X must have been read before the next is copied");
  const int thread = threadIdx.x, first_block = thread / kGroupThreads * kBlocks;
  const float argument_scale = ArgumentScale<Features>(a, place), norm_factor = NormFactor(a);
  const TileCopier<kTiles, kStateThreads> x(segment.x, thread), w(segment.w, thread);
  const auto first_of = [&](int t) {
    return segment.begin + (kAdjoint ? segment.tiles - 1 - t : t) * kTile;
  };
  const auto copy = [&](int t) {
    if (t < segment.tiles) {
      x.Copy(layout.X(t), first_of(t));
      w.Copy(layout.W(t), first_of(t));
    }
    CommitCopies();
  };
  const auto constants_of = [&](int t) {
    const int row = first_of(t) + thread / (kStateThreads / kTile);
    return RowConstants<kAdjoint>(place, segment, t < segment.tiles ? row : segment.end);
  };
  copy(0);
  RowConstants<kAdjoint> constants = constants_of(0);
  State<kTiles> states[kBlocks];
  float offsets[kBlocks][2];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    Load<Features>(a, place, at, (first_block + i) * kTile, states[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      offsets[i][half] = Offset(a, place, (first_block + i) * kTile + RowOf(2 * half));
  }
  bool lost = false;
  for (int t = 0; t < segment.tiles; ++t) {
    WaitForCopies<0>();
    PublishToTensorCores();
    Barrier(1, kStateThreads);
    lost |= FindBias<Features, kTiles, kStateThreads>(
        a, constants, thread, norm_factor, layout.X(t), tables.bias, tables.weight[t & 1]);
    float kept = 1;  // of the state, by this chunk
    if constexpr (kForgets) {
      kept = Exp2(constants.total);
      if (thread % (kStateThreads / kTile) == 0)
        tables.kept[thread / (kStateThreads / kTile)] = Exp2(constants.kept);
    }
    if constexpr (Layout<kTiles>::kOfX == 2) copy(t + 1);
    constants = constants_of(t + 1);
    Barrier(1, kStateThreads);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      Accumulators e;
      FindProducts(e, layout, t, first_block + i);
      if constexpr (Layout<kTiles>::kOfX == 1) {
        Barrier(1, kStateThreads);  // until both warpgroups have read X
        copy(t + 1);
      }
      lost |= AddChunk<Features, kAdjoint, kForgets>(layout, tables, t, first_block + i, offsets[i],
                                                     argument_scale, a.epsilon, kept, e, states[i]);
    }
    PublishToTensorCores();
    Barrier(0, kThreads);
  }
  if (lost) a.flags[at] = 1;
}

template <class Features, Pass kPass, bool kForgets, int kTiles>
__device__ __forceinline__ void TokenSide(const Call& a, const Place& place,
                                          const Layout<kTiles>& layout,
                                          const Tables<kTiles>& tables,
                                          const TokenSource<kPass, kTiles>& source, int begin,
                                          int chunks, int64_t at) {
  constexpr bool kReverse = kPass == Pass::kKeyGradients;
  constexpr Chunk kChunk = kForgets ? Chunk::kForgets : Chunk::kPlain;
  const float argument_scale = ArgumentScale<Features>(a, place);
  const auto first_of = [&](int t) { return begin + (kReverse ? chunks - 1 - t : t) * kTile; };
  source.Copy(layout.Tokens(), first_of(0));
  bool lost = false;
  for (int t = 0; t < chunks; ++t) {
    Barrier(0, kThreads);  // chunk t is there
    WaitForCopies<0>();
    Barrier(2, kGroupThreads);
    const auto release = [&] {
      Barrier(2, kGroupThreads);  // until all warps have read
      if (t + 1 < chunks) source.Copy(layout.Tokens(), first_of(t + 1));
    };
    StateTiles state{.omega = layout.omega,
                     .s = layout.S(t),
                     .features = layout.FeatureTiles(t),
                     .values = layout.W(t),
                     .c = tables.c[t & 1],
                     .z = tables.z[t & 1],
                     .delta = tables.weight[t & 1],
                     .blocks = (a.features + kTile - 1) / kTile};
    if constexpr (kForgets) {
      state.decay = {.sums = a.decay + place.group * a.key_length + first_of(t),
                     .rows = min(kTile, source.length - first_of(t))};
    }
    lost |= ReadRows<Features, kPass, kChunk, kTiles>(a, place, state,
                                                      {.tiles = layout.Tokens(),
                                                       .first = first_of(t),
                                                       .length = source.length,
                                                       .argument_scale = argument_scale},
                                                      release);
  }
  if (lost) a.flags[at] = 1;
}

// Each warpgroup of the side of states has kBlocks blocks of 64 features.
template <class Features, Pass kPass, bool kForgets, int kTiles, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1) CausalKernel(const __grid_constant__ Call a) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  constexpr bool kAdjoint = kPass == Pass::kKeyGradients;
  const Layout<kTiles> layout(SharedAddress(dynamic));
  auto& tables = *reinterpret_cast<Tables<kTiles>*>(dynamic + layout.kAll * kTileBytes);
  const int at = blockIdx.x;
  const Place place(a, at / static_cast<int>(a.segments));
  const Segment<kAdjoint> segment(a, place, at % static_cast<int>(a.segments));
  if (segment.tiles == 0) return;
  LoadOmega<kTiles>(a, place, layout.omega, 2 * kBlocks, threadIdx.x, kThreads);
  PublishToTensorCores();
  __syncthreads();
  // Accumulators of the side of tokens take more registers than those of the side of states.
  if (__shfl_sync(0xffffffffu, threadIdx.x / kGroupThreads, 0) < 2) {
#if FAVOR_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 152;");
#endif
    StateSide<Features, kAdjoint, kForgets, kTiles, kBlocks>(a, place, layout, tables, segment, at);
  } else {
#if FAVOR_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 200;");
#endif
    TokenSide<Features, kPass, kForgets>(a, place, layout, tables,
                                         TokenSource<kPass, kTiles>(a, place), segment.begin,
                                         segment.tiles, at);
  }
}

template <Pass kPass, bool kForgets>
void LaunchCausal(const Call& a, cudaStream_t stream) {
  WithShape(a, [&](auto features, auto tiles) {
    using Features = decltype(features);
    constexpr int kTiles = decltype(tiles)::value;
    const auto launch = [&](auto blocks) {
      Launch(CausalKernel<Features, kPass, kForgets, kTiles, decltype(blocks)::value>,
             a.groups * a.segments, kThreads, BytesOf<kTiles>(), a, stream);
    };
    if (kTiles == 1 && a.features > 2 * kTile) return launch(Constant<2 / kTiles>{});
    launch(Constant<1>{});
  });
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_
