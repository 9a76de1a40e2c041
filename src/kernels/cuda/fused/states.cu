// States of segments. Each warpgroup holds 64 features as rows: ω as the left operand, a tile of 64
// keys as columns; exponentials become the left operand of the product with the values.
#include "kernels/cuda/fused/segments.cuh"

namespace favor::kernels::cuda::fused {
namespace {

constexpr int kStages = 4;  // tiles on their way: the one in use, the next, and two that arrive

struct Tables {
  float bias[2][kTile], weight[2][kTile];  // see FindBias
};
constexpr int BytesOf(int blocks, int tiles) {
  return 1024 + (kStages * 2 + blocks) * tiles * kTileBytes;
}

// One warpgroup's part of a state: 64 features.
template <int kTiles>
struct State {
  Accumulators s[kTiles];
  float c[2], z[2];  // of the thread's two rows; z is the part of this thread's columns
};

template <class Features, int kTiles>
__device__ __forceinline__ void AddTile(State<kTiles>& state, uint32_t omega_tile, uint32_t x,
                                        uint32_t w, const float* bias, const float* weight,
                                        float argument_scale, float epsilon) {
  Accumulators e;
  {
    LeftOperand omega[kTiles];
    LoadRows(omega, omega_tile);
    BeginProducts(e);
    RowProduct(e, omega, x, false);
    EndProducts(e);
  }
  float base[2] = {0, 0}, factor[2];
  if constexpr (!Features::kFlat) {
    const bool moves = MoveMaximum(e, argument_scale, bias, state.c, base, factor);
    if (moves) {
      Scale(state.s, factor);
      state.z[0] *= factor[0];
      state.z[1] *= factor[1];
    }
  }
  FindFeatures<Features>(e, argument_scale, epsilon, base, {true, true}, bias, weight, state.z);
  LeftOperand weights;
  ToLeft(weights, e);
  BeginProducts(state.s);
  SumRows(state.s, weights, w, true);
  EndProducts(state.s);
}

template <class Features, int kTiles>
__device__ __forceinline__ void StoreState(const Call& a, const Place& place, int64_t at, int first,
                                           const State<kTiles>& state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = first + RowOf(2 * half);
    const float z = QuadSum(state.z[half]);
    if (r >= a.features) continue;
    const int64_t row = at * a.features + r;
    if ((threadIdx.x & 3) == 0) {
      a.z[row] = z;
      a.c[row] = Features::kFlat ? 0.0f : (state.c[half] + Offset(a, place, r)) * kLn2;
    }
#pragma unroll
    for (int b = 0; b < 8 * kTiles; ++b) {
      const int column = ColumnOf(b, 0);
      const float(&block)[4] = state.s[b / 8][b % 8];
      if (column < a.value_dim) {
        *reinterpret_cast<float2*>(a.s + row * a.value_dim + column) = {block[2 * half],
                                                                        block[2 * half + 1]};
      }
    }
  }
}

template <class Features, bool kAdjoint, int kTiles, int kBlocks>
__global__ void __launch_bounds__(kBlocks* kGroupThreads, 1)
    StatesKernel(const __grid_constant__ Call a) {
  extern __shared__ unsigned char dynamic[];
  __shared__ Tables tables;
  constexpr int kThreads = kBlocks * kGroupThreads;
  const uint32_t omega = FirstTile(dynamic), tiles = omega + kBlocks * kTiles * kTileBytes;
  const int thread = threadIdx.x, block = thread / kGroupThreads;
  const Place place(a, blockIdx.x / static_cast<int>(a.segments));
  const Segment<kAdjoint> segment(a, place, blockIdx.x % static_cast<int>(a.segments));
  const TileCopier<kTiles, kThreads> x(segment.x, thread), w(segment.w, thread);
  const auto tile_of = [&](int t) { return tiles + (t % kStages) * 2 * kTiles * kTileBytes; };
  // If the call forgets, tiles come in the order in which less and less of them is left: what a row
  // counts is then known when it joins.
  const bool reverse = !kAdjoint && a.decay != nullptr;
  const auto first_of = [&](int t) {
    return segment.begin + (reverse ? segment.tiles - 1 - t : t) * kTile;
  };
  const auto copy = [&](int t) {
    if (t < segment.tiles) {
      x.Copy(tile_of(t), first_of(t));
      w.Copy(tile_of(t) + kTiles * kTileBytes, first_of(t));
    }
    CommitCopies();
  };
  float forgotten = 0;  // of the tiles so far
  const auto constants_of = [&](int t) {
    const int row = first_of(t) + thread / (kThreads / kTile);
    RowConstants<kAdjoint> constants(place, segment, t < segment.tiles ? row : segment.end);
    constants.log_share += constants.kept + forgotten;
    forgotten += constants.total;
    return constants;
  };
  const float norm_factor = NormFactor(a);
  const auto find_bias = [&](int t, const RowConstants<kAdjoint>& constants) {
    if (t < segment.tiles) {
      FindBias<Features, kTiles, kThreads>(a, constants, thread, norm_factor, tile_of(t),
                                           tables.bias[t & 1], tables.weight[t & 1]);
    }
  };
  for (int t = 0; t < 3; ++t) copy(t);
  LoadOmega<kTiles>(a, place, omega, kBlocks, thread, kThreads);
  WaitForCopies<2>();
  __syncthreads();
  find_bias(0, constants_of(0));
  RowConstants<kAdjoint> next = constants_of(1);
  State<kTiles> state{};
  state.c[0] = state.c[1] = -kInfinity;
  const float argument_scale = ArgumentScale<Features>(a, place);
  for (int t = 0; t < segment.tiles; ++t) {
    WaitForCopies<1>();  // tile t + 1 is here
    PublishToTensorCores();
    __syncthreads();
    find_bias(t + 1, next);
    next = constants_of(t + 2);
    copy(t + 3);
    AddTile<Features>(state, omega + block * kTiles * kTileBytes, tile_of(t),
                      tile_of(t) + kTiles * kTileBytes, tables.bias[t & 1], tables.weight[t & 1],
                      argument_scale, a.epsilon);
  }
  StoreState<Features>(a, place, blockIdx.x, block * kTile, state);
  if (thread == 0 && a.decay == nullptr) a.log_decay[blockIdx.x] = 0;
}

template <bool kAdjoint>
void LaunchStates(const Call& a, cudaStream_t stream) {
  WithShape(a, [&](auto features, auto tiles) {
    using Features = decltype(features);
    constexpr int kTiles = decltype(tiles)::value, kMost = MostBlocks(kTiles);
    const auto launch = [&](auto blocks) {
      constexpr int kBlocks = decltype(blocks)::value;
      Launch(StatesKernel<Features, kAdjoint, kTiles, kBlocks>, a.groups * a.segments,
             kBlocks * kGroupThreads, BytesOf(kBlocks, kTiles), a, stream);
    };
    if (a.features <= kTile) return launch(Constant<1>{});
    if (kMost > 2 && a.features <= 2 * kTile) return launch(Constant<2>{});
    launch(Constant<kMost>{});
  });
}

}  // namespace

void KeyStates(const Call& a, cudaStream_t stream) { LaunchStates<false>(a, stream); }
void AdjointStates(const Call& a, cudaStream_t stream) { LaunchStates<true>(a, stream); }

}  // namespace favor::kernels::cuda::fused
