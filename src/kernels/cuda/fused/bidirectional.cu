// Passes that read one state per group: outputs and gradients of bidirectional attention. ω and the
// state lie in shared memory; each warpgroup goes through tiles of 64 rows of its own.
#include <algorithm>

#include "kernels/cuda/fused/tokens.cuh"

namespace favor::kernels::cuda::fused {
namespace {

// Warpgroups of a block: as many as have registers for their accumulators.
FAVOR_HOST_DEVICE constexpr int GroupsOf(Pass pass, int tiles) {
  if (pass == Pass::kOutput) return tiles == 1 ? 4 : 3;
  return pass == Pass::kQueryGradients && tiles == 1 ? 3 : 2;
}
constexpr int BytesOf(Pass pass, int tiles) {
  const int rows = GroupsOf(pass, tiles) * (pass == Pass::kOutput ? 1 : 2);
  return 1024 + (2 * MostBlocks(tiles) + rows) * tiles * kTileBytes;
}

struct Tables {
  float c[MostBlocks(1) * kTile], z[MostBlocks(1) * kTile];
};

// The state of one group as tiles of bf16 and tables.
template <class Features, int kTiles>
__device__ __forceinline__ void LoadState(const Call& a, const Place& place, uint32_t tiles,
                                          Tables& tables) {
  const int blocks = (a.features + kTile - 1) / kTile;
  const int64_t state = place.group * a.state_stride * a.features;
  LoadTable<kTiles>(a.s + state * a.value_dim, a.features, a.value_dim, blocks, tiles, threadIdx.x,
                    blockDim.x);
  for (int r = threadIdx.x; r < blocks * kTile; r += blockDim.x) {
    tables.z[r] = r < a.features ? a.z[state + r] : 0.0f;
    tables.c[r] = r < a.features ? a.c[state + r] * kLog2E + Offset(a, place, r) : -kInfinity;
  }
}

template <class Features, Pass kPass, int kTiles>
__global__ void __launch_bounds__(GroupsOf(kPass, kTiles) * kGroupThreads, 1)
    BidirectionalKernel(const __grid_constant__ Call a, int parts) {
  extern __shared__ unsigned char dynamic[];
  __shared__ Tables tables;
  constexpr int kGroups = GroupsOf(kPass, kTiles), kMost = MostBlocks(kTiles) * kTiles;
  constexpr int kOwn = (TokenSource<kPass, kTiles>::kTwo ? 2 : 1) * kTiles;
  const int wide = threadIdx.x / kGroupThreads, blocks = (a.features + kTile - 1) / kTile;
  const uint32_t omega = FirstTile(dynamic), s = omega + kMost * kTileBytes;
  const uint32_t tile = s + (kMost + wide * kOwn) * kTileBytes;
  const Place place(a, blockIdx.x / parts);
  const TokenSource<kPass, kTiles> source(a, place);
  const int step = parts * kGroups * kTile;
  int first = (static_cast<int>(blockIdx.x % parts) * kGroups + wide) * kTile;
  source.Copy(tile, first);
  LoadOmega<kTiles>(a, place, omega, blocks, threadIdx.x, blockDim.x);
  LoadState<Features, kTiles>(a, place, s, tables);
  PublishToTensorCores();
  __syncthreads();
  const StateTiles state{.omega = omega,
                         .s = s,
                         .features = 0,
                         .values = 0,
                         .c = tables.c,
                         .z = tables.z,
                         .delta = nullptr,
                         .blocks = blocks};
  const float argument_scale = ArgumentScale<Features>(a, place);
  for (; first < source.length; first += step) {
    WaitForCopies<0>();
    Barrier(1 + wide, kGroupThreads);
    const auto release = [&] {
      Barrier(1 + wide, kGroupThreads);  // until all warps have read
      source.Copy(tile, first + step);
    };
    const bool lost = ReadRows<Features, kPass, Chunk::kNone, kTiles, 0>(
        a, place, state,
        {.tiles = tile, .first = first, .length = source.length, .argument_scale = argument_scale},
        release);
    if (lost) a.flags[place.group * a.segments + first / a.segment_rows] = 1;
  }
  WaitForCopies<0>();
}

template <Pass kPass>
void LaunchBidirectional(const Call& a, cudaStream_t stream) {
  const int64_t length = kPass == Pass::kKeyGradients ? a.key_length : a.query_length;
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  WithShape(a, [&](auto features, auto tiles) {
    constexpr int kTiles = decltype(tiles)::value, kGroups = GroupsOf(kPass, kTiles);
    constexpr int kBytes = BytesOf(kPass, kTiles), kRows = kGroups * kTile;
    const int64_t most = std::max<int64_t>(1, (length + kRows - 1) / kRows);
    const auto parts = static_cast<int>(std::clamp<int64_t>(multiprocessors / a.groups, 1, most));
    auto* kernel = BidirectionalKernel<decltype(features), kPass, kTiles>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<static_cast<unsigned>(a.groups * parts), kGroups * kGroupThreads, kBytes, stream>>>(
        a, parts);
  });
}

}  // namespace

void Output(const Call& a, cudaStream_t stream) { LaunchBidirectional<Pass::kOutput>(a, stream); }
void QueryGradients(const Call& a, cudaStream_t stream) {
  LaunchBidirectional<Pass::kQueryGradients>(a, stream);
}
void KeyGradients(const Call& a, cudaStream_t stream) {
  LaunchBidirectional<Pass::kKeyGradients>(a, stream);
}

}  // namespace favor::kernels::cuda::fused
