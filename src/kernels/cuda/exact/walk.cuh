// The walk of a block over tiles of columns: where engines have two stages, a tile is copied while
// the one before is used.
#ifndef FAVOR_KERNELS_CUDA_EXACT_WALK_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_WALK_CUH_

#include "kernels/cuda/exact/block.cuh"
#include "kernels/cuda/exact/tiles.cuh"

namespace favor::kernels::cuda {

// Calls load(tile, stage) and then body(tile, stage) for every tile, and start() once what was
// copied before the walk and the first tile are there.
template <class Engine, class LoadTile, class Start, class Body>
__device__ void Walk(int64_t begin, int64_t end, const LoadTile& load, const Start& start,
                     const Body& body) {
  if (begin >= end) return;
  load(begin, 0);
  Engine::WaitForTiles();
  __syncthreads();
  start();
  for (int64_t tile = begin; tile < end; ++tile) {
    const int stage = static_cast<int>((tile - begin) % Engine::kStages);
    if (Engine::kStages == 2 && tile + 1 < end) load(tile + 1, 1 - stage);
    body(tile, stage);
    if (tile + 1 == end) break;
    if (Engine::kStages == 1) {
      __syncthreads();
      load(tile + 1, 0);
    }
    Engine::WaitForTiles();
    __syncthreads();
  }
}

// A tile is taken in kSteps steps to save registers: calls body(first column of a step, in the
// tile) for those with a pair that sees each other among the rows of this thread's group.
template <class Engine, int kSteps, class Body>
__device__ void ForSteps(const ExactBand& band, int64_t first_row, int64_t first_column,
                         int64_t columns, const Body& body) {
  constexpr int kStep = 8 * Engine::kColumnTiles;
#pragma unroll 1
  for (int step = 0; step < kSteps * kStep; step += kStep) {
    const int64_t first = first_column + step;
    if (first < columns && SeesAny<Engine>(band, first_row, first, kStep)) body(step);
  }
}

// Shared memory that is handed out from its beginning.
class SharedMemory {
 public:
  __device__ explicit SharedMemory(char* begin) : next_(begin) {}
  __device__ char* Take(int bytes) {
    char* taken = next_;
    next_ += bytes;
    return taken;
  }

 private:
  char* next_;
};

// Stages of two arrays that are read together, of kColumns rows each: keys and values, or queries
// and the gradients of their results; and two floats per row.
template <class Engine, int kColumns>
class Stages {
 public:
  static __host__ __device__ int Bytes(int first_columns, int second_columns) {
    return Engine::kStages * (Engine::TileBytes(kColumns, first_columns) +
                              Engine::TileBytes(kColumns, second_columns) +
                              2 * kColumns * static_cast<int>(sizeof(float)));
  }
  __device__ Stages(SharedMemory& memory, int first_columns, int second_columns)
      : first_columns_(first_columns),
        second_columns_(second_columns),
        first_(memory.Take(Engine::kStages * Engine::TileBytes(kColumns, first_columns))),
        second_(memory.Take(Engine::kStages * Engine::TileBytes(kColumns, second_columns))),
        floats_(reinterpret_cast<float*>(
            memory.Take(Engine::kStages * 2 * kColumns * static_cast<int>(sizeof(float))))) {}

  __device__ typename Engine::Tile First(int stage) const {
    return {first_ + stage * Engine::TileBytes(kColumns, first_columns_), kColumns, first_columns_};
  }
  __device__ typename Engine::Tile Second(int stage) const {
    return {second_ + stage * Engine::TileBytes(kColumns, second_columns_), kColumns,
            second_columns_};
  }
  // Keys, values and, if there is a mask, 1 for each key that exists and 0 for the others.
  __device__ void LoadKeys(const Engine& engine, const ExactRows& keys, const ExactRows& values,
                           int64_t tile, int stage) const {
    const int64_t first = tile * kColumns;
    engine.template Load<kColumns>(First(stage), keys, first);
    engine.template Load<kColumns>(Second(stage), values, first);
    if (keys.mask == nullptr) return;
    for (int i = threadIdx.x; i < kColumns; i += Engine::kThreads)
      Floats(stage, 0)[i] = keys.Has(first + i) ? 1 : 0;
  }
  __device__ float* Floats(int stage, int which) const {
    return floats_ + (2 * stage + which) * kColumns;
  }

 private:
  int first_columns_, second_columns_;
  char *first_, *second_;
  float* floats_;
};

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_WALK_CUH_
