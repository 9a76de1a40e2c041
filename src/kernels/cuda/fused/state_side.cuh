// The side of states of a causal pass: one or two warpgroups of a block of three that hold the
// state of a segment in registers, features as rows, leave a copy of it and the features of chunk t
// in shared memory and move it on, while the others read what they left of chunk t − 1.
//
// If the call forgets, the features of a chunk and the state before it have a common maximum C, as
// if nothing were forgotten: readers count what is left of the state, and what is left of each key
// where they stand (MATH: every factor is at most 1). Then the state becomes that of the chunk's
// end: its sums are scaled by what is left of them.
#ifndef FAVOR_KERNELS_CUDA_FUSED_STATE_SIDE_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_STATE_SIDE_CUH_

#include "kernels/cuda/fused/segments.cuh"

namespace favor::kernels::cuda::fused {

constexpr int kThreads = 3 * kGroupThreads;

// What lies in shared memory, in tiles, if kReaders warpgroups read: of the chunk in work and the
// one before. There is one copy of X only if rows are wide or two warpgroups read.
template <int kTiles_, int kReaders>
struct Layout {
  static constexpr int kTiles = kTiles_, kStateThreads = kThreads - kReaders * kGroupThreads;
  static constexpr int kBlocks = MostBlocks(kTiles), kWide = kBlocks * kTiles;
  static constexpr int kOfX = kTiles == 1 && kReaders == 1 ? 2 : 1;
  static constexpr int kS = kWide, kFeatures = kS + 2 * kWide, kX = kFeatures + 2 * kBlocks,
                       kW = kX + kOfX * kTiles, kTokens = kW + 3 * kTiles,
                       kAll = kTokens + (kReaders + 1) * kTiles;

  __device__ explicit Layout(uint32_t first) : omega(first) {}
  __device__ uint32_t Of(int tile) const { return omega + tile * kTileBytes; }
  __device__ uint32_t Omega(int block) const { return Of(block * kTiles); }
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
template <class Layout>
FAVOR_HOST_DEVICE constexpr int BytesOf() {
  return Layout::kAll * kTileBytes + static_cast<int>(sizeof(Tables<Layout::kTiles>));
}
template <class Layout>
__device__ __forceinline__ Tables<Layout::kTiles>& TablesOf(unsigned char* dynamic) {
  return *reinterpret_cast<Tables<Layout::kTiles>*>(dynamic + Layout::kAll * kTileBytes);
}

// A number for each of a thread's two rows in each of kBlocks blocks of features. The threads of a
// quad share their rows: each holds the numbers of one block, if there are several.
template <int kBlocks>
class RowNumbers {
 public:
  __device__ __forceinline__ void Get(int block, float (&x)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      x[half] = kBlocks == 1 ? own_[half] : __shfl_sync(0xffffffffu, own_[half], block, 4);
  }
  __device__ __forceinline__ void Set(int block, const float (&x)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      own_[half] = kBlocks == 1 || (threadIdx.x & 3) == block ? x[half] : own_[half];
  }

 private:
  float own_[2] = {0, 0};
};

// The state of a warpgroup: kBlocks blocks of 64 features.
template <int kTiles, int kBlocks>
struct State {
  Accumulators s[kBlocks][kTiles];
  RowNumbers<kBlocks> c, z, offset;
  RowNumbers<kBlocks> mass;  // Σ w, which z is too if rows are keys; used by adjoints that forget
};

template <class Features, int kTiles, int kBlocks>
__device__ __forceinline__ void Load(const Call& a, const Place& place, int64_t at, int first_block,
                                     State<kTiles, kBlocks>& state) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    float c[2], z[2], mass[2], offset[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = (first_block + block) * kTile + RowOf(2 * half);
      const int64_t row = at * a.features + r;
      const bool exists = r < a.features;
      offset[half] = Offset(a, place, r);
      z[half] = exists ? a.z[row] : 0.0f;
      c[half] = exists ? a.c[row] * kLog2E - offset[half] : -kInfinity;
      mass[half] = c[half] > -kInfinity ? 1.0f : 0.0f;
#pragma unroll
      for (int b = 0; b < 8 * kTiles; ++b) {
        const int column = ColumnOf(b, 0);
        float2 pair{};
        if (exists && column < a.value_dim)
          pair = *reinterpret_cast<const float2*>(a.s + row * a.value_dim + column);
        float(&two)[4] = state.s[block][b / 8][b % 8];
        two[2 * half] = pair.x;
        two[2 * half + 1] = pair.y;
      }
    }
    state.c.Set(block, c);
    state.z.Set(block, z);
    state.mass.Set(block, mass);
    state.offset.Set(block, offset);
  }
}

// Sums of less than this, relative to a maximum of rows that are forgotten, get a maximum of their
// own; of less than kLeastMass digits may be lost.
constexpr float kSmallMass = 0x1p-20f, kLeastMass = 0x1p-100f;

// Lowers maxima that decay has left behind, by powers of 2, together with sums that wait for their
// last weights `e`. Returns whether digits may be lost.
template <int kTiles>
__device__ __forceinline__ bool LowerMaximum(Accumulators (&s)[kTiles], Accumulators& e,
                                             float (&c)[2], float (&z)[2], float (&mass)[2]) {
  bool is_small = false, lost = false;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    is_small |= c[half] > -kInfinity && !(mass[half] >= kSmallMass);
  if (!__any_sync(0xffffffffu, is_small)) return false;
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = c[half] > -kInfinity;
    lost |= exists && !(mass[half] >= kLeastMass);
    const float fall =
        exists && mass[half] >= kLeastMass ? fminf(0.0f, floorf(Log2(mass[half]))) : 0.0f;
    factor[half] = Exp2(-fall);
    c[half] += fall;
    z[half] *= factor[half];
    mass[half] *= factor[half];
  }
  Scale(s, factor);
  Scale(e, factor);
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

// A chunk as the state meets it.
struct ChunkOfRows {
  int t;
  float argument_scale, epsilon;
  float kept;  // what it leaves of the state
};

// A copy of the sums of one block, for readers.
template <int kTiles>
__device__ __forceinline__ void StoreSums(const Accumulators (&s)[kTiles], uint32_t tiles) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i) StoreRounded(s[i], tiles + i * kTileBytes);
}

// Turns the products `e` of a chunk into exponents, moves the maximum of a block to cover them, and
// leaves c and z for readers; sums that have to be scaled are stored once more. `at` is the block,
// `block` the one of this warpgroup. Returns what to subtract from exponents.
template <class Features, bool kCountsMass, class Layout, int kTiles, int kBlocks>
__device__ __forceinline__ float2 MeetState(const Layout& layout, Tables<kTiles>& tables,
                                            const ChunkOfRows& chunk, int at, int block,
                                            Accumulators& e, State<kTiles, kBlocks>& state) {
  float c[2], z[2], offset[2], base[2] = {0, 0}, factor[2];
  state.c.Get(block, c);
  state.z.Get(block, z);
  if constexpr (!Features::kFlat) {
    if (MoveMaximum(e, chunk.argument_scale, tables.bias, c, base, factor)) {
      Scale(state.s[block], factor);
      StoreSums(state.s[block], layout.S(chunk.t) + at * kTiles * kTileBytes);
      z[0] *= factor[0];
      z[1] *= factor[1];
      state.c.Set(block, c);
      state.z.Set(block, z);
      if constexpr (kCountsMass) {
        float mass[2];
        state.mass.Get(block, mass);
        mass[0] *= factor[0];
        mass[1] *= factor[1];
        state.mass.Set(block, mass);
      }
    }
  }
  state.offset.Get(block, offset);
  if ((threadIdx.x & 3) == 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at * kTile + RowOf(2 * half);
      tables.z[chunk.t & 1][row] = z[half];
      tables.c[chunk.t & 1][row] = c[half] + 2 * offset[half];
    }
  }
  return {base[0], base[1]};
}

// What the state of a block becomes when `count` and `added` of the thread's columns join; the sums
// have been scaled and wait for `e`. Returns whether digits may be lost.
template <class Features, bool kAdjoint, bool kForgets, int kTiles, int kBlocks>
__device__ __forceinline__ bool CountChunk(float kept, int block, const float (&count)[2],
                                           const float (&added)[2], Accumulators& e,
                                           State<kTiles, kBlocks>& state) {
  float z[2];
  state.z.Get(block, z);
#pragma unroll
  for (int half = 0; half < 2; ++half)
    z[half] = fmaf(z[half], kForgets ? kept : 1.0f, QuadSum(count[half]));
  bool lost = false;
  if constexpr (kForgets && !Features::kFlat) {
    float c[2], mass[2];
    state.c.Get(block, c);
    if constexpr (kAdjoint) state.mass.Get(block, mass);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      mass[half] = kAdjoint ? fmaf(mass[half], kept, QuadSum(added[half])) : z[half];
    lost = LowerMaximum(state.s[block], e, c, z, mass);
    state.c.Set(block, c);
    if constexpr (kAdjoint) state.mass.Set(block, mass);
  }
  state.z.Set(block, z);
  return lost;
}

// Leaves the state and the features of a chunk for the side of tokens and moves the state on.
// Products with ω of one block run while the sums of the one before do. Calls release() once X has
// been read. Returns whether digits may be lost.
template <class Features, bool kAdjoint, bool kForgets, class Layout, int kTiles, int kBlocks,
          class Release>
__device__ __forceinline__ bool AddChunk(const Layout& layout, Tables<kTiles>& tables,
                                         const ChunkOfRows& chunk, int first_block,
                                         State<kTiles, kBlocks>& state, const Release& release) {
  constexpr bool kCountsMass = kAdjoint && kForgets && !Features::kFlat;
  const int t = chunk.t;
  const float* weight = tables.weight[t & 1];
  bool lost = false;
  Accumulators e;
  LeftOperand left;
  const auto begin = [&](int block) {
    RowProduct<kTiles>(e, layout.Omega(first_block + block), layout.X(t), false);
    CommitProducts();
  };
  BeginProducts(e);
  begin(0);
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    const int at = first_block + block;
    Accumulators(&s)[kTiles] = state.s[block];
    StoreSums(s, layout.S(t) + at * kTiles * kTileBytes);
    if (block == 0) {
      WaitForProducts<0>(e);
    } else {
      WaitForProducts<1>(e);
    }
    if (block == kBlocks - 1) release();
    const float2 base =
        MeetState<Features, kCountsMass>(layout, tables, chunk, at, block, e, state);
    if (block > 0) WaitForProducts<0>(state.s[block - 1], left);
    float count[2] = {0, 0}, added[2] = {0, 0};
    bool exists[2] = {true, true};
    if constexpr (Features::kFlat) {
      float offset[2];
      state.offset.Get(block, offset);
      exists[0] = offset[0] > -kInfinity;
      exists[1] = offset[1] > -kInfinity;
    }
    FindFeatures<Features>(e, chunk.argument_scale, chunk.epsilon, {base.x, base.y}, exists,
                           tables.bias, weight, count);
    ToLeft(left, e);
    StoreLeft(left, layout.FeatureTiles(t) + at * kTileBytes);
    if constexpr (kForgets) {
      count[0] = count[1] = 0;
      KeepRows(e, tables.kept, weight, count, added);
      const float factor[2] = {chunk.kept, chunk.kept};
      Scale(s, factor);
    }
    lost |= CountChunk<Features, kAdjoint, kForgets>(chunk.kept, block, count, added, e, state);
    if constexpr (kForgets) ToLeft(left, e);
    BeginProducts(e, s);
    if (block + 1 < kBlocks) begin(block + 1);
    SumRows(s, left, layout.W(t), true);
    CommitProducts();
  }
  WaitForProducts<0>(state.s[kBlocks - 1], left);
  return lost;
}

// Each warpgroup has kBlocks blocks of 64 features.
template <class Features, bool kAdjoint, bool kForgets, int kBlocks, class Layout>
__device__ __forceinline__ void StateSide(const Call& a, const Place& place, const Layout& layout,
                                          Tables<Layout::kTiles>& tables,
                                          const Segment<kAdjoint>& segment, int64_t at) {
  constexpr int kTiles = Layout::kTiles, kStateThreads = Layout::kStateThreads;
  const int thread = threadIdx.x,
            first_block = kStateThreads == kGroupThreads ? 0 : WarpgroupOf() * kBlocks;
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
  State<kTiles, kBlocks> state;
  Load<Features>(a, place, at, first_block, state);
  bool lost = false;
  for (int t = 0; t < segment.tiles; ++t) {
    WaitForCopies<0>();
    PublishToTensorCores();
    Barrier(1, kStateThreads);
    lost |= FindBias<Features, kTiles, kStateThreads>(
        a, constants, thread, norm_factor, layout.X(t), tables.bias, tables.weight[t & 1]);
    ChunkOfRows chunk{.t = t, .argument_scale = argument_scale, .epsilon = a.epsilon, .kept = 1};
    if constexpr (kForgets) {
      chunk.kept = Exp2(constants.total);
      if (thread % (kStateThreads / kTile) == 0)
        tables.kept[thread / (kStateThreads / kTile)] = Exp2(constants.kept);
    }
    if constexpr (Layout::kOfX == 2) copy(t + 1);
    constants = constants_of(t + 1);
    Barrier(1, kStateThreads);
    const auto release = [&] {
      if constexpr (Layout::kOfX == 2) return;
      Barrier(1, kStateThreads);  // until all have read X
      copy(t + 1);
    };
    lost |=
        AddChunk<Features, kAdjoint, kForgets>(layout, tables, chunk, first_block, state, release);
    PublishToTensorCores();
    Barrier(0, kThreads);
  }
  if (lost) a.flags[at] = 1;
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_STATE_SIDE_CUH_
