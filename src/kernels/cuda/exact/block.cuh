// What the blocks of all kernels of exact attention do: find their rows, walk over the tiles of
// columns that these see, and hide the pairs that do not.
#ifndef FAVOR_KERNELS_CUDA_EXACT_BLOCK_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_BLOCK_CUH_

#include "kernels/cuda/exact/call.cuh"

namespace favor::kernels::cuda {

// The four lanes that hold a row.
__device__ inline float SumOfRow(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}
__device__ inline float LargestOfRow(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

// Calls body(m, n, i, row slot) for all accumulators; the slot is that of the row among those that
// this lane holds.
template <int kRowTiles, int kColumnTiles, class Body>
__device__ void ForEach(const Body& body) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) body(m, n, i, 2 * m + i / 2);
    }
  }
}

// A row of this lane, counted from the first of the block, and its first column in a tile.
template <class Engine>
__device__ int RowOfSlot(int slot) {
  return threadIdx.x / 32 * Engine::kWarpRows + slot / 2 * 16 + slot % 2 * 8 + threadIdx.x % 32 / 4;
}
__device__ inline int FirstColumn() { return threadIdx.x % 4 * 2; }

// Which rows, and which part of the work on them, are those of a block. Groups are fastest, so
// that blocks of the longest rows start first if `descending`.
struct ExactPlace {
  __device__ ExactPlace(int64_t groups, int64_t row_tiles, int slices, bool descending) {
    int64_t index = blockIdx.x;
    group = index % groups;
    index /= groups;
    slice = static_cast<int>(index % slices);
    index /= slices;
    tile = descending ? row_tiles - 1 - index % row_tiles : index % row_tiles;
    split = static_cast<int>(index / row_tiles);
  }

  int64_t group, tile;
  int slice, split;
};

// The tiles of kColumns columns that `rows` rows from `first_row` see: begin … end − 1.
struct ExactTiles {
  __device__ ExactTiles(const ExactBand& band, int64_t first_row, int64_t rows, int64_t columns,
                        int tile_columns) {
    const int64_t first = max(int64_t{0}, first_row + band.low);
    const int64_t last = min(columns, first_row + rows + band.high);
    begin = first / tile_columns;
    end = last > first ? (last + tile_columns - 1) / tile_columns : begin;
  }
  __device__ void Split(int index, int count) {
    const int64_t first = begin, tiles = end - begin;
    begin = first + tiles * index / count;
    end = first + tiles * (index + 1) / count;
  }
  __device__ int64_t count() const { return end - begin; }

  int64_t begin, end;
};

// Whether any, or all, of the rows of this thread's group see any, or all, of `columns` columns. A
// group is the threads that multiply together; others of the block may see more.
template <class Engine>
__device__ bool SeesAny(const ExactBand& band, int64_t first_row, int64_t first_column,
                        int columns) {
  const int64_t row = first_row + Engine::FirstRowOfGroup();
  return row + Engine::kGroupRows - 1 + band.high >= first_column &&
         row + band.low <= first_column + columns - 1;
}
template <class Engine>
__device__ bool SeesAll(const ExactBand& band, int64_t first_row, int64_t first_column,
                        int columns) {
  const int64_t row = first_row + Engine::FirstRowOfGroup();
  return row + band.high >= first_column + columns - 1 &&
         row + Engine::kGroupRows - 1 + band.low <= first_column;
}

template <class Engine>
__device__ void ApplySign(float sign, typename Engine::Scores& scores) {
  if (sign == 1) return;
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>(
      [&](int m, int n, int i, int) { scores[m][n][i] *= sign; });
}

// Scores of pairs that do not see each other, and of columns from `count` on, become −∞.
template <class Engine>
__device__ void HideScores(const ExactBand& band, int64_t first_row, int64_t first_column,
                           int64_t count, typename Engine::Scores& scores) {
  constexpr int64_t kFar = 1 << 20;  // beyond any tile
  int low[2 * Engine::kRowTiles], high[2 * Engine::kRowTiles];
#pragma unroll
  for (int slot = 0; slot < 2 * Engine::kRowTiles; ++slot) {
    const int64_t row = first_row + RowOfSlot<Engine>(slot);
    low[slot] = static_cast<int>(min(max(row + band.low - first_column, -kFar), kFar));
    high[slot] =
        static_cast<int>(min(max(min(row + band.high, count - 1) - first_column, -kFar), kFar));
  }
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int slot) {
    const int column = n * 8 + FirstColumn() + i % 2;
    if (column < low[slot] || column > high[slot]) scores[m][n][i] = -INFINITY;
  });
}

// For rows of queries and columns of keys: the sign of the scale, and what is hidden.
template <class Engine>
__device__ void HideKeys(const ExactProblem& problem, int64_t first_row, int64_t first_key,
                         const float* exists, typename Engine::Scores& scores) {
  constexpr int kColumns = 8 * Engine::kColumnTiles;
  ApplySign<Engine>(problem.sign, scores);
  if (problem.mask != nullptr) {
    ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int) {
      if (exists[n * 8 + FirstColumn() + i % 2] == 0) scores[m][n][i] = -INFINITY;
    });
  }
  if (first_key + kColumns > problem.key_length ||
      !SeesAll<Engine>(problem.band, first_row, first_key, kColumns)) {
    HideScores<Engine>(problem.band, first_row, first_key, problem.key_length, scores);
  }
}

// For each row of this warp's lanes, one bit for each of the four lanes that hold it.
__device__ inline unsigned QuarterBallot(bool value) {
  return __ballot_sync(~0u, value) >> (threadIdx.x % 32 / 4 * 4) & 15;
}

// Stores factor·sums as rows from `first_row` of `to`, columns from `first_column`; rows for which
// `is_zero` is true become 0. Returns the number of rows of this lane's quarter with an element
// that is not finite, in its first lane.
template <class Engine, class IsZero>
__device__ int StoreSums(const ExactArray<void>& to, int64_t at, int64_t first_row, int64_t rows,
                         int first_column, int columns, float factor,
                         const typename Engine::Sums& sums, const IsZero& is_zero) {
  int unusable = 0;
#pragma unroll
  for (int slot = 0; slot < 2 * Engine::kRowTiles; ++slot) {
    const int64_t row = first_row + RowOfSlot<Engine>(slot);
    const bool zero = is_zero(slot);
    bool finite = true;
#pragma unroll
    for (int n = 0; n < Engine::kSumTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first_column + n * 8 + FirstColumn() + i;
        if (row >= rows || column >= columns) continue;
        const float sum = factor * sums[slot / 2][n][slot % 2 * 2 + i];
        finite &= isfinite(
            StoreFloat(to.data, to.type, at + row * to.row_stride + column, zero ? 0.0f : sum));
      }
    }
    const unsigned all_finite = QuarterBallot(finite);
    unusable += threadIdx.x % 4 == 0 && all_finite != 15;
  }
  return unusable;
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_BLOCK_CUH_
