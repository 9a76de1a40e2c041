// Exact attention as flash attention computes it (Dao, FlashAttention-2): a block has some queries
// and walks over the keys; each row keeps its largest score so far, and its sums in units of two to
// that power. If there are few blocks, several share the keys of one, and their sums are merged.
#ifndef FAVOR_KERNELS_CUDA_EXACT_FORWARD_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_FORWARD_CUH_

#include <algorithm>

#include "kernels/cuda/exact/launch.cuh"
#include "kernels/cuda/exact/result.cuh"
#include "kernels/cuda/exact/walk.cuh"

namespace favor::kernels::cuda {

// The rows of a lane.
template <class Engine>
class ExactSums {
 public:
  static constexpr int kSlots = 2 * Engine::kRowTiles;

  __device__ ExactSums() {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      largest_[slot] = -INFINITY;
      sum_[slot] = 0;
    }
    ForEach<Engine::kRowTiles, Engine::kSumTiles>(
        [&](int m, int n, int i, int) { values_[m][n][i] = 0; });
  }

  // Scores become weights 2^(scale·score − largest), and the sums are brought to the new largest.
  __device__ void Weigh(float scale, typename Engine::Scores& scores) {
    float largest[kSlots], shown[kSlots], factor[kSlots];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) largest[slot] = -INFINITY;
    ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int slot) {
      largest[slot] = fmaxf(largest[slot], scores[m][n][i]);
    });
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const float now = fmaxf(largest_[slot], LargestOfRow(largest[slot]) * scale);
      shown[slot] = now == -INFINITY ? 0 : now;  // no key yet: all weights are 0
      factor[slot] = Exp2(largest_[slot] - shown[slot]);
      largest_[slot] = now;
      sum_[slot] *= factor[slot];
    }
    ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int slot) {
      scores[m][n][i] = Exp2(fmaf(scores[m][n][i], scale, -shown[slot]));
      sum_[slot] += scores[m][n][i];
    });
    ForEach<Engine::kRowTiles, Engine::kSumTiles>(
        [&](int m, int n, int i, int slot) { values_[m][n][i] *= factor[slot]; });
  }
  __device__ typename Engine::Sums& values() { return values_; }

  // Once, at the end: the sums of weights are of one lane until then.
  __device__ void Finish() {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) sum_[slot] = SumOfRow(sum_[slot]);
  }
  __device__ float largest(int slot) const { return largest_[slot]; }
  __device__ float sum(int slot) const { return sum_[slot]; }
  __device__ float value(int slot, int n, int i) const {
    return values_[slot / 2][n][slot % 2 * 2 + i];
  }

 private:
  float largest_[kSlots], sum_[kSlots];
  typename Engine::Sums values_;
};

// Calls body(column, sum) for the columns of a row that this lane holds.
template <class Engine, class Body>
__device__ void ForColumns(const ExactForward& a, int slice, const ExactSums<Engine>& sums,
                           int slot, const Body& body) {
#pragma unroll
  for (int n = 0; n < Engine::kSumTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = slice * Engine::kSumColumns + n * 8 + FirstColumn() + i;
      if (column < a.problem.value_dim) body(column, sums.value(slot, n, i));
    }
  }
}

template <class Engine>
__device__ void StorePartial(const ExactForward& a, const ExactPlace& place,
                             const ExactSums<Engine>& sums) {
  const int64_t width = a.problem.value_dim + 2, rows = a.problem.query_length;
#pragma unroll
  for (int slot = 0; slot < ExactSums<Engine>::kSlots; ++slot) {
    const int64_t row = place.tile * Engine::kRows + RowOfSlot<Engine>(slot);
    if (row >= rows) continue;
    float* to = a.partial + ((place.split * a.problem.groups + place.group) * rows + row) * width;
    ForColumns(a, place.slice, sums, slot, [&](int column, float sum) { to[column] = sum; });
    if (place.slice > 0 || threadIdx.x % 4 > 0) continue;
    to[width - 2] = sums.largest(slot);
    to[width - 1] = sums.sum(slot);
  }
}

template <class Engine>
__device__ void StoreResults(const ExactForward& a, const ExactPlace& place,
                             const ExactSums<Engine>& sums) {
  int empty = 0, unusable = 0;
#pragma unroll
  for (int slot = 0; slot < ExactSums<Engine>::kSlots; ++slot) {
    const int64_t row = place.tile * Engine::kRows + RowOfSlot<Engine>(slot);
    const bool exists = row < a.problem.query_length;
    const ExactResult result(a, place.group, row, sums.largest(slot), sums.sum(slot));
    bool finite = true;
    if (exists) {
      ForColumns(a, place.slice, sums, slot,
                 [&](int column, float sum) { finite &= result.Store(column, sum); });
    }
    const bool first = threadIdx.x % 4 == 0;
    if (exists && first && place.slice == 0) {
      result.StoreRow();
      empty += result.IsEmpty();
    }
    unusable += QuarterBallot(finite) != 15 && first;
  }
  AddToTally(a.problem.tally->empty, empty);
  AddToTally(a.problem.tally->unusable, unusable);
}

// What some keys, from `first` on, add to the rows of a block.
template <class Engine>
__device__ __forceinline__ void AddKeys(const ExactProblem& problem, const Engine& engine,
                                        typename Engine::HeldLeft& queries,
                                        const typename Engine::Tile& keys,
                                        const typename Engine::Tile& values, const float* exists,
                                        int64_t first_row, int64_t first, int first_column,
                                        ExactSums<Engine>& sums) {
  typename Engine::Scores scores;
  typename Engine::Weights weights;
  engine.StartProduct(queries, keys, scores);
  engine.template FinishProduct<0>(scores);
  HideKeys<Engine>(problem, first_row, first, exists, scores);
  sums.Weigh(problem.scale_log2, scores);
  engine.StartAddProduct(scores, values, first_column, sums.values(), weights);
  engine.template FinishAddProduct<0>(sums.values(), weights);
}

template <class Engine, int kSteps>
__global__ void __launch_bounds__(Engine::kThreads, Engine::kBlocks)
    ExactForwardKernel(const __grid_constant__ ExactForward a) {
  constexpr int kStep = 8 * Engine::kColumnTiles, kColumns = kSteps * kStep;
  extern __shared__ __align__(1024) char shared[];
  if (!Engine::kExists) return;
  const ExactProblem& problem = a.problem;
  const ExactPlace place(problem.groups, a.row_tiles, a.slices, /*descending=*/true);
  const int64_t batch = place.group / problem.heads, head = place.group % problem.heads;
  const int64_t kv_head = head / problem.Sharing(), first_row = place.tile * Engine::kRows;
  const ExactRows keys = problem.Keys(batch, kv_head), values = problem.Values(batch, kv_head);

  SharedMemory memory(shared);
  const typename Engine::Tile queries(memory.Take(Engine::TileBytes(Engine::kRows, problem.dim)),
                                      Engine::kRows, problem.dim);
  const Stages<Engine, kColumns> stages(memory, problem.dim, problem.value_dim);
  const Engine engine(memory.Take(Engine::ScratchBytes()));
  typename Engine::HeldLeft left(engine, queries);
  ExactSums<Engine> sums;

  const int64_t rows = min(int64_t{Engine::kRows}, problem.query_length - first_row);
  ExactTiles tiles(problem.band, first_row, rows, keys.count, kColumns);
  tiles.Split(place.split, a.splits);
  engine.template Load<Engine::kRows>(queries, problem.Queries(batch, head), first_row);
  Walk<Engine>(
      tiles.begin, tiles.end,
      [&](int64_t tile, int stage) { stages.LoadKeys(engine, keys, values, tile, stage); },
      [&] { left.Hold(); },
      [&](int64_t tile, int stage) {
        ForSteps<Engine, kSteps>(
            problem.band, first_row, tile * kColumns, keys.count, [&](int step) {
              AddKeys<Engine>(problem, engine, left, stages.First(stage).After(step),
                              stages.Second(stage).After(step), stages.Floats(stage, 0) + step,
                              first_row, tile * kColumns + step, place.slice * Engine::kSumColumns,
                              sums);
            });
      });
  sums.Finish();
  if (a.splits > 1) {
    StorePartial(a, place, sums);
  } else {
    StoreResults(a, place, sums);
  }
}

// Splits so that all multiprocessors have work; each has at least kLeastTiles tiles.
template <class Engine, int kSteps>
void LaunchForward(ExactForward a, const Context& context) {
  constexpr int kColumns = kSteps * 8 * Engine::kColumnTiles, kLeastTiles = 4;
  const ExactProblem& problem = a.problem;
  a.row_tiles = DivideUp(problem.query_length, Engine::kRows);
  a.slices = static_cast<int>(DivideUp(problem.value_dim, Engine::kSumColumns));
  const int64_t blocks = a.row_tiles * a.slices * problem.groups;
  const int64_t most = DivideUp(problem.key_length, kColumns * kLeastTiles);
  a.splits = static_cast<int>(
      std::clamp<int64_t>(Processors() * Engine::kBlocks / blocks, 1, std::max<int64_t>(most, 1)));
  const int64_t partial_size =
      a.splits > 1 ? a.splits * problem.groups * problem.query_length * (problem.value_dim + 2) : 1;
  const DeviceScratch<float> partial(context, partial_size);
  a.partial = partial.data();
  const int bytes = Engine::TileBytes(Engine::kRows, problem.dim) +
                    Stages<Engine, kColumns>::Bytes(problem.dim, problem.value_dim) +
                    Engine::ScratchBytes();
  LaunchBlocks(ExactForwardKernel<Engine, kSteps>, blocks * a.splits, Engine::kThreads, bytes, a,
               context);
  if (a.splits > 1) MergeExactSplits(a, context);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_FORWARD_CUH_
