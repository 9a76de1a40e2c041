// Products in f32 on CUDA cores. A thread has 8 × 8 elements of C and adds 16 terms at a time,
// which pass through shared memory.
#ifndef FAVOR_KERNELS_CUDA_MATMUL_F32_CUH_
#define FAVOR_KERNELS_CUDA_MATMUL_F32_CUH_

#include "kernels/cuda/matmul/block.cuh"

namespace favor::kernels::cuda::tiles {

constexpr int kTileTerms = 16;

// Terms are the slow axis. Rows are padded, so that they begin at multiples of 16 bytes and threads
// that hold different terms of a line store to different banks.
using TermTile = float[kTileTerms][kBlockSide + 4];

// A thread's part of a tile on its way to shared memory: neighbouring threads load neighbouring
// elements.
class TileLoad {
 public:
  __device__ TileLoad(const Lines<float>& x, int64_t first, int64_t begin) : x_(x) {
    const int thread = static_cast<int>(threadIdx.x);
    line_ = AlongTerms() ? thread / kTileTerms : thread % kBlockSide;
    term_ = AlongTerms() ? thread % kTileTerms : thread / kBlockSide;
    at_ = x.data + (first + line_) * x.line + (begin + term_) * x.term;
    lines_ = static_cast<int>(min(x.count - first, int64_t{kBlockSide})) - line_;
  }

  // Loads the next tile, of which `terms` exist.
  __device__ void Load(int64_t terms) {
    const int left = static_cast<int>(min(terms, int64_t{kTileTerms})) - term_;
    const float* at = at_;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const bool exists =
          AlongTerms() ? i * kLineStep < lines_ && 0 < left : 0 < lines_ && i * kTermStep < left;
      held_[i] = exists ? *at : 0.0f;
      at += AlongTerms() ? kLineStep * x_.line : kTermStep * x_.term;
    }
    at_ += kTileTerms * x_.term;
  }
  __device__ void Keep(TermTile& tile) const {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      if (AlongTerms()) {
        tile[term_][line_ + i * kLineStep] = held_[i];
      } else {
        tile[term_ + i * kTermStep][line_] = held_[i];
      }
    }
  }

 private:
  static constexpr int kParts = kBlockSide * kTileTerms / kBlockThreads;
  static constexpr int kLineStep = kBlockThreads / kTileTerms;
  static constexpr int kTermStep = kBlockThreads / kBlockSide;

  __device__ bool AlongTerms() const { return x_.term == 1; }

  const Lines<float>& x_;
  int line_, term_;
  int lines_;  // from this thread's first one on
  const float* at_;
  float held_[kParts];
};

__device__ inline void LoadFour(const float* from, float* to) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  to[0] = x.x;
  to[1] = x.y;
  to[2] = x.z;
  to[3] = x.w;
}

// Two groups of four neighbouring lines, half a block apart: threads of a warp read what lies side
// by side.
__device__ inline void LoadEight(const float* from, float (&to)[8]) {
  LoadFour(from, to);
  LoadFour(from + kBlockSide / 2, to + 4);
}

static __global__ void __launch_bounds__(kBlockThreads, 2)
    FloatKernel(const __grid_constant__ TiledProduct<float, float> p) {
  __shared__ __align__(16) TermTile a_tiles[2], b_tiles[2];
  const Part part(p);
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
  TileLoad a(p.a, part.row, part.begin), b(p.b, part.column, part.begin);
  float sums[8][8] = {};
  a.Load(part.terms);
  b.Load(part.terms);
  int turn = 0;
  for (int64_t left = part.terms; left > 0; left -= kTileTerms, turn ^= 1) {
    a.Keep(a_tiles[turn]);
    b.Keep(b_tiles[turn]);
    __syncthreads();
    if (left > kTileTerms) {
      a.Load(left - kTileTerms);
      b.Load(left - kTileTerms);
    }
#pragma unroll
    for (int k = 0; k < kTileTerms; ++k) {
      float x[8], y[8];
      LoadEight(&a_tiles[turn][k][row], x);
      LoadEight(&b_tiles[turn][k][column], y);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += x[i] * y[j];
      }
    }
  }
  Result<float, float> to = p.result;
  to.data += blockIdx.y * to.rows * to.columns;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float four[4] = {sums[i][4 * half], sums[i][4 * half + 1], sums[i][4 * half + 2],
                       sums[i][4 * half + 3]};
      StoreSums(to, part.row + i / 4 * (kBlockSide / 2) + row + i % 4,
                part.column + half * (kBlockSide / 2) + column, four);
    }
  }
}

inline void Launch(const TiledProduct<float, float>& p, const dim3& blocks, cudaStream_t stream) {
  FloatKernel<<<blocks, kBlockThreads, 0, stream>>>(p);
}

}  // namespace favor::kernels::cuda::tiles

#endif  // FAVOR_KERNELS_CUDA_MATMUL_F32_CUH_
