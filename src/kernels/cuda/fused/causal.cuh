// Causal passes. A block goes through the chunks of one segment, 64 tokens each; its three
// warpgroups work on two chunks at a time: the side of states (state_side.cuh) on chunk t, that of
// tokens, which reads what the other left, on chunk t − 1. Gradients of keys go through the chunks
// from the end, with the state of the adjoint.
#ifndef FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_
#define FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_

#include "kernels/cuda/fused/state_side.cuh"
#include "kernels/cuda/fused/tokens.cuh"

namespace favor::kernels::cuda::fused {

// What the side of states left of chunk t, whose first row is `first`.
template <bool kForgets, class Layout>
__device__ __forceinline__ StateTiles StateOf(const Call& a, const Place& place,
                                              const Layout& layout,
                                              const Tables<Layout::kTiles>& tables, int t,
                                              int first) {
  StateTiles state{.omega = layout.omega,
                   .s = layout.S(t),
                   .features = layout.FeatureTiles(t),
                   .values = layout.W(t),
                   .c = tables.c[t & 1],
                   .z = tables.z[t & 1],
                   .delta = tables.weight[t & 1],
                   .blocks = (a.features + kTile - 1) / kTile};
  if constexpr (kForgets) {
    state.decay = {.sums = a.decay + place.group * a.key_length + first,
                   .rows = min(kTile, static_cast<int>(a.key_length) - first)};
  }
  return state;
}

template <class Features, Pass kPass, bool kForgets, int kBlocks, class Layout>
__device__ __forceinline__ void TokenSide(const Call& a, const Place& place, const Layout& layout,
                                          const Tables<Layout::kTiles>& tables, int begin,
                                          int chunks, int64_t at) {
  constexpr bool kReverse = kPass == Pass::kKeyGradients;
  constexpr Chunk kChunk = kForgets ? Chunk::kForgets : Chunk::kPlain;
  constexpr int kTiles = Layout::kTiles;
  const TokenSource<kPass, kTiles> source(a, place);
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
    const StateTiles state = StateOf<kForgets>(a, place, layout, tables, t, first_of(t));
    const TokenRows rows{.tiles = layout.Tokens(),
                         .first = first_of(t),
                         .length = source.length,
                         .argument_scale = argument_scale};
    lost |= ReadRows<Features, kPass, kChunk, kTiles, kBlocks>(a, place, state, rows, release);
  }
  if (lost) a.flags[at] = 1;
}

// Gradients of keys and values of narrow rows: of the three warpgroups one holds the state, one
// reads it for values, one for keys. k is read where it lies, and so has two copies.
template <class Features, bool kForgets, int kBlocks, bool kOfValues, class Layout>
__device__ __forceinline__ void KeySide(const Call& a, const Place& place, const Layout& layout,
                                        const Tables<1>& tables, int begin, int chunks,
                                        int64_t at) {
  constexpr Chunk kChunk = kForgets ? Chunk::kForgets : Chunk::kPlain;
  const float argument_scale = ArgumentScale<Features>(a, place);
  const int length = static_cast<int>(a.key_length);
  const Rows& array = kOfValues ? a.k : a.v;
  const TileCopier<1, kGroupThreads> source(
      {place.OfKeys(array), array.row, kOfValues ? a.dim : a.value_dim, length, place.Mask(a),
       a.mask_row},
      threadIdx.x % kGroupThreads);
  const auto k_of = [&](int t) { return layout.Tokens() + (t & 1) * kTileBytes; };
  const uint32_t v_tile = layout.Tokens() + 2 * kTileBytes;
  const auto first_of = [&](int t) { return begin + (chunks - 1 - t) * kTile; };
  const auto copy = [&](int t) {
    if (t < chunks) source.Copy(kOfValues ? k_of(t) : v_tile, first_of(t));
    CommitCopies();
  };
  copy(0);
  bool lost = false;
  for (int t = 0; t < chunks; ++t) {
    WaitForCopies<0>();
    PublishToTensorCores();
    Barrier(0, kThreads);  // chunk t is there
    const TokenRows rows{
        .tiles = k_of(t), .first = first_of(t), .length = length, .argument_scale = argument_scale};
    const StateTiles state = StateOf<kForgets>(a, place, layout, tables, t, rows.first);
    float bias[2];
    {
      LeftOperand k[1];
      LoadRows(k, rows.tiles);
      FindKeyBias<Features>(a, place, rows, k, bias);
    }
    if constexpr (kOfValues) {
      copy(t + 1);
      lost |= ReadForValues<Features, kChunk, 1, kBlocks>(a, place, state, rows, bias, rows.tiles);
    } else {
      LeftOperand v[1];
      LoadRows(v, v_tile);
      Barrier(2, kGroupThreads);  // until all warps have read
      copy(t + 1);
      lost |= ReadForKeys<Features, kChunk, 1, kBlocks>(a, place, state, rows, bias, rows.tiles, v);
    }
  }
  if (lost) a.flags[at] = 1;
}

// The state has kBlocks blocks of 64 features.
template <class Features, bool kForgets, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1) CausalKeyKernel(const __grid_constant__ Call a) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  using Layout = Layout<1, /*kReaders=*/2>;
  const Layout layout(SharedAddress(dynamic));
  auto& tables = TablesOf<Layout>(dynamic);
  const int at = blockIdx.x;
  const Place place(a, at / static_cast<int>(a.segments));
  const Segment<true> segment(a, place, at % static_cast<int>(a.segments));
  if (segment.tiles == 0) return;
  LoadOmega<1>(a, place, layout.omega, kBlocks, threadIdx.x, kThreads);
  PublishToTensorCores();
  __syncthreads();
  const int warpgroup = WarpgroupOf();
  if (warpgroup == 0) {
    TakeRegisters<kForgets ? 208 : 216>();
    StateSide<Features, true, kForgets, kBlocks>(a, place, layout, tables, segment, at);
  } else if (warpgroup == 1) {
    KeepRegisters<128>();
    KeySide<Features, kForgets, kBlocks, /*kOfValues=*/true>(a, place, layout, tables,
                                                             segment.begin, segment.tiles, at);
  } else {
    if constexpr (!kForgets) KeepRegisters<160>();  // the launch gave 168
    KeySide<Features, kForgets, kBlocks, /*kOfValues=*/false>(a, place, layout, tables,
                                                              segment.begin, segment.tiles, at);
  }
}

// One warpgroup reads the kBlocks blocks of 64 features; the two on the side of states have half of
// them each.
template <class Features, Pass kPass, bool kForgets, int kTiles, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1) CausalKernel(const __grid_constant__ Call a) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  constexpr bool kAdjoint = kPass == Pass::kKeyGradients;
  using Layout = Layout<kTiles, /*kReaders=*/1>;
  const Layout layout(SharedAddress(dynamic));
  auto& tables = TablesOf<Layout>(dynamic);
  const int at = blockIdx.x;
  const Place place(a, at / static_cast<int>(a.segments));
  const Segment<kAdjoint> segment(a, place, at % static_cast<int>(a.segments));
  if (segment.tiles == 0) return;
  constexpr int kOwn = (kBlocks + 1) / 2;
  LoadOmega<kTiles>(a, place, layout.omega, 2 * kOwn, threadIdx.x, kThreads);
  PublishToTensorCores();
  __syncthreads();
  // Accumulators of the side of tokens take more registers than those of the side of states.
  if (WarpgroupOf() < 2) {
    KeepRegisters<152>();
    StateSide<Features, kAdjoint, kForgets, kOwn>(a, place, layout, tables, segment, at);
  } else {
    TakeRegisters<200>();
    TokenSide<Features, kPass, kForgets, kBlocks>(a, place, layout, tables, segment.begin,
                                                  segment.tiles, at);
  }
}

// Calls launch(Constant<blocks of features>{}).
template <int kTiles, class LaunchIt>
void WithBlocks(const Call& a, const LaunchIt& launch) {
  if constexpr (kTiles == 1) {
    if (a.features > 3 * kTile) return launch(Constant<4>{});
    if (a.features > 2 * kTile) return launch(Constant<3>{});
  }
  if (a.features > kTile) return launch(Constant<2>{});
  launch(Constant<1>{});
}

template <Pass kPass, bool kForgets>
void LaunchCausal(const Call& a, cudaStream_t stream) {
  WithShape(a, [&](auto features, auto tiles) {
    using Features = decltype(features);
    constexpr int kTiles = decltype(tiles)::value;
    constexpr bool kTwoRead = kPass == Pass::kKeyGradients && kTiles == 1;
    WithBlocks<kTiles>(a, [&](auto blocks) {
      constexpr int kBlocks = decltype(blocks)::value;
      const auto launch = [&](auto* kernel) {
        Launch(kernel, a.groups * a.segments, kThreads, BytesOf<Layout<kTiles, kTwoRead ? 2 : 1>>(),
               a, stream);
      };
      if constexpr (kTwoRead) {
        launch(CausalKeyKernel<Features, kForgets, kBlocks>);
      } else {
        launch(CausalKernel<Features, kPass, kForgets, kTiles, kBlocks>);
      }
    });
  });
}

}  // namespace favor::kernels::cuda::fused

#endif  // FAVOR_KERNELS_CUDA_FUSED_CAUSAL_CUH_
