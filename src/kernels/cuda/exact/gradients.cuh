// Gradients of exact attention, from weights computed again: with P_ij = exp(s_ij − log_sum_i) and
// dS_ij = P_ij (dO_i·v_j + δ_i), one kernel has some queries and adds up dq over the keys, the
// other has some keys and adds up dk and dv over the queries. Five products of which two are
// computed twice, but neither atomic additions nor partial sums: every sum has one fixed order.
#ifndef FAVOR_KERNELS_CUDA_EXACT_GRADIENTS_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_GRADIENTS_CUH_

#include <algorithm>

#include "kernels/cuda/exact/launch.cuh"
#include "kernels/cuda/exact/walk.cuh"

namespace favor::kernels::cuda {

// Weights of normalised rows are at most 1, whatever rounding says.
__device__ inline float ExactWeight(float score, float scale, float log2_sum, bool bounded) {
  const float exponent = fmaf(score, scale, -log2_sum);
  return Exp2(bounded ? fminf(exponent, 0.0f) : exponent);
}

template <class Sums>
__device__ void Clear(Sums& sums) {
  float* all = &sums[0][0][0];
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Sums) / sizeof(float)); ++i) all[i] = 0;
}

// What some keys, from `first` on, add to the gradients of the queries of a block.
template <class Engine>
__device__ __forceinline__ void AddToQueryGradients(
    const ExactBackward& a, const Engine& engine, const typename Engine::Left& queries,
    const typename Engine::Left& grads, const typename Engine::Tile& keys,
    const typename Engine::Tile& values, const float* exists,
    const float (&log2_sum)[2 * Engine::kRowTiles], const float (&delta)[2 * Engine::kRowTiles],
    int64_t first_row, int64_t first, int first_column, typename Engine::Sums& sums) {
  const ExactProblem& problem = a.problem;
  typename Engine::Scores scores, grad_weights;
  typename Engine::Weights weights;
  engine.StartProduct(queries, keys, scores);
  engine.StartProduct(grads, values, grad_weights);
  engine.template FinishProduct<1>(scores);
  HideKeys<Engine>(problem, first_row, first, exists, scores);
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int slot) {
    scores[m][n][i] = ExactWeight(scores[m][n][i], problem.scale_log2, log2_sum[slot], a.bounded);
  });
  engine.template FinishProduct<0>(grad_weights);
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int slot) {
    scores[m][n][i] *= grad_weights[m][n][i] + delta[slot];
  });
  engine.StartAddProduct(scores, keys, first_column, sums, weights);
  engine.template FinishAddProduct<0>(sums, weights);
}

template <class Engine, int kSteps>
__global__ void __launch_bounds__(Engine::kThreads, Engine::kBlocks)
    ExactQueryGradientsKernel(const __grid_constant__ ExactBackward a) {
  constexpr int kStep = 8 * Engine::kColumnTiles, kColumns = kSteps * kStep;
  constexpr int kSlots = 2 * Engine::kRowTiles;
  extern __shared__ __align__(1024) char shared[];
  if (!Engine::kExists) return;
  const ExactProblem& problem = a.problem;
  const ExactPlace place(problem.groups, a.row_tiles, a.slices, /*descending=*/true);
  const int64_t batch = place.group / problem.heads, head = place.group % problem.heads;
  const int64_t kv_head = head / problem.Sharing(), first_row = place.tile * Engine::kRows;
  const ExactRows keys = problem.Keys(batch, kv_head), values = problem.Values(batch, kv_head);
  const int first_column = place.slice * Engine::kSumColumns;

  SharedMemory memory(shared);
  const typename Engine::Tile queries(memory.Take(Engine::TileBytes(Engine::kRows, problem.dim)),
                                      Engine::kRows, problem.dim);
  const typename Engine::Tile grads(
      memory.Take(Engine::TileBytes(Engine::kRows, problem.value_dim)), Engine::kRows,
      problem.value_dim);
  const Stages<Engine, kColumns> stages(memory, problem.dim, problem.value_dim);
  const Engine engine(memory.Take(Engine::ScratchBytes()));
  typename Engine::Left left(engine, queries), left_grads(engine, grads);

  float log2_sum[kSlots], delta[kSlots];
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const int64_t row = first_row + RowOfSlot<Engine>(slot);
    const bool exists = row < problem.query_length;
    log2_sum[slot] = exists ? kLog2E * a.log_sum[place.group * a.log_sum_stride + row] : INFINITY;
    delta[slot] = exists ? a.delta[place.group * a.delta_stride + row] : 0;
  }
  typename Engine::Sums sums;
  Clear(sums);

  const int64_t rows = min(int64_t{Engine::kRows}, problem.query_length - first_row);
  const ExactTiles tiles(problem.band, first_row, rows, keys.count, kColumns);
  engine.template Load<Engine::kRows>(queries, problem.Queries(batch, head), first_row);
  engine.template Load<Engine::kRows>(grads, problem.QueryValues(a.grad_out, batch, head),
                                      first_row);
  Walk<Engine>(
      tiles.begin, tiles.end,
      [&](int64_t tile, int stage) { stages.LoadKeys(engine, keys, values, tile, stage); },
      [&] {
        left.Hold();
        left_grads.Hold();
      },
      [&](int64_t tile, int stage) {
        ForSteps<Engine, kSteps>(
            problem.band, first_row, tile * kColumns, keys.count, [&](int step) {
              AddToQueryGradients<Engine>(
                  a, engine, left, left_grads, stages.First(stage).After(step),
                  stages.Second(stage).After(step), stages.Floats(stage, 0) + step, log2_sum, delta,
                  first_row, tile * kColumns + step, first_column, sums);
            });
      });
  const int unusable =
      StoreSums<Engine>(a.grad_q, a.grad_q.At(batch, head), first_row, problem.query_length,
                        first_column, problem.dim, problem.scale, sums, [](int) { return false; });
  AddToTally(problem.tally->unusable, unusable);
}

// `count` floats of one group from `first` on; beyond its end they are 0, as the rows are.
template <int kCount, class Engine>
__device__ void LoadFloats(float* to, const float* from, int64_t first, int64_t end) {
  for (int i = threadIdx.x; i < kCount; i += Engine::kThreads) {
    const bool exists = first + i < end;
    CopyAsync<4>(SharedAddress(to + i), from + (exists ? first + i : 0), exists);
  }
}

// What some queries, from `first` on, add to the gradients of the keys and values of a block.
template <class Engine>
__device__ __forceinline__ void AddToKeyGradients(
    const ExactBackward& a, const Engine& engine, const typename Engine::Left& keys,
    const typename Engine::Left& values, const typename Engine::Tile& queries,
    const typename Engine::Tile& grads, const float* log_sum, const float* delta,
    const ExactBand& band, int64_t first_row, int64_t first, int first_column,
    typename Engine::Sums& key_sums, typename Engine::Sums& value_sums) {
  constexpr int kStep = 8 * Engine::kColumnTiles;
  const ExactProblem& problem = a.problem;
  typename Engine::Scores weights, grad_weights;
  typename Engine::Weights for_values, for_keys;
  engine.StartProduct(keys, queries, weights);
  engine.StartProduct(values, grads, grad_weights);
  engine.template FinishProduct<1>(weights);
  ApplySign<Engine>(problem.sign, weights);
  if (!SeesAll<Engine>(band, first_row, first, kStep)) {
    HideScores<Engine>(band, first_row, first, problem.query_length, weights);
  }
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int) {
    weights[m][n][i] = ExactWeight(weights[m][n][i], problem.scale_log2,
                                   kLog2E * log_sum[n * 8 + FirstColumn() + i % 2], a.bounded);
  });
  engine.template FinishProduct<0>(grad_weights);
  engine.StartAddProduct(weights, grads, first_column, value_sums, for_values);
  ForEach<Engine::kRowTiles, Engine::kColumnTiles>([&](int m, int n, int i, int) {
    weights[m][n][i] *= grad_weights[m][n][i] + delta[n * 8 + FirstColumn() + i % 2];
  });
  engine.StartAddProduct(weights, queries, first_column, key_sums, for_keys);
  engine.template FinishAddProduct<1>(value_sums, for_values);
  engine.template FinishAddProduct<0>(key_sums, for_keys);
}

// The heads that share the keys add to the same sums, one after the other.
template <class Engine, int kSteps>
__global__ void __launch_bounds__(Engine::kThreads, Engine::kBlocks)
    ExactKeyGradientsKernel(const __grid_constant__ ExactBackward a) {
  constexpr int kStep = 8 * Engine::kColumnTiles, kColumns = kSteps * kStep;
  extern __shared__ __align__(1024) char shared[];
  if (!Engine::kExists) return;
  const ExactProblem& problem = a.problem;
  const ExactPlace place(problem.groups / problem.Sharing(), a.row_tiles, a.slices,
                         /*descending=*/false);
  const int64_t batch = place.group / problem.kv_heads, kv_head = place.group % problem.kv_heads;
  const int64_t first_row = place.tile * Engine::kRows;
  const ExactRows keys = problem.Keys(batch, kv_head), values = problem.Values(batch, kv_head);
  const int first_column = place.slice * Engine::kSumColumns;

  SharedMemory memory(shared);
  const typename Engine::Tile key_tile(memory.Take(Engine::TileBytes(Engine::kRows, problem.dim)),
                                       Engine::kRows, problem.dim);
  const typename Engine::Tile value_tile(
      memory.Take(Engine::TileBytes(Engine::kRows, problem.value_dim)), Engine::kRows,
      problem.value_dim);
  const Stages<Engine, kColumns> stages(memory, problem.dim, problem.value_dim);
  const Engine engine(memory.Take(Engine::ScratchBytes()));
  typename Engine::Left left(engine, key_tile), left_values(engine, value_tile);
  typename Engine::Sums key_sums, value_sums;
  Clear(key_sums);
  Clear(value_sums);

  const ExactBand band = problem.band.Transposed();
  const int64_t rows = min(int64_t{Engine::kRows}, problem.key_length - first_row);
  const ExactTiles tiles(band, first_row, rows, problem.query_length, kColumns);
  engine.template Load<Engine::kRows>(key_tile, keys, first_row);
  engine.template Load<Engine::kRows>(value_tile, values, first_row);
  for (int64_t head = kv_head * problem.Sharing(); head < (kv_head + 1) * problem.Sharing();
       ++head) {
    const ExactRows query_rows = problem.Queries(batch, head);
    const ExactRows grad_rows = problem.QueryValues(a.grad_out, batch, head);
    const float* log_sums = a.log_sum + (batch * problem.heads + head) * a.log_sum_stride;
    const float* deltas = a.delta + (batch * problem.heads + head) * a.delta_stride;
    __syncthreads();  // until no warp reads the tiles of the head before
    Walk<Engine>(
        tiles.begin, tiles.end,
        [&](int64_t tile, int stage) {
          const int64_t first = tile * kColumns;
          engine.template Load<kColumns>(stages.First(stage), query_rows, first);
          engine.template Load<kColumns>(stages.Second(stage), grad_rows, first);
          LoadFloats<kColumns, Engine>(stages.Floats(stage, 0), log_sums, first, query_rows.count);
          LoadFloats<kColumns, Engine>(stages.Floats(stage, 1), deltas, first, query_rows.count);
        },
        [&] {
          left.Hold();
          left_values.Hold();
        },
        [&](int64_t tile, int stage) {
          ForSteps<Engine, kSteps>(
              band, first_row, tile * kColumns, query_rows.count, [&](int step) {
                AddToKeyGradients<Engine>(
                    a, engine, left, left_values, stages.First(stage).After(step),
                    stages.Second(stage).After(step), stages.Floats(stage, 0) + step,
                    stages.Floats(stage, 1) + step, band, first_row, tile * kColumns + step,
                    first_column, key_sums, value_sums);
              });
        });
  }
  const auto is_zero = [&](int slot) { return !keys.Has(first_row + RowOfSlot<Engine>(slot)); };
  int unusable =
      StoreSums<Engine>(a.grad_v, a.grad_v.At(batch, kv_head), first_row, problem.key_length,
                        first_column, problem.value_dim, 1.0f, value_sums, is_zero);
  unusable +=
      StoreSums<Engine>(a.grad_k, a.grad_k.At(batch, kv_head), first_row, problem.key_length,
                        first_column, problem.dim, problem.scale, key_sums, is_zero);
  AddToTally(problem.tally->unusable, unusable);
}

template <class Engine>
int RowBytes(const ExactProblem& problem) {
  return Engine::TileBytes(Engine::kRows, problem.dim) +
         Engine::TileBytes(Engine::kRows, problem.value_dim) + Engine::ScratchBytes();
}

template <class Engine, int kSteps>
void LaunchQueryGradients(ExactBackward a, const Context& context) {
  const ExactProblem& problem = a.problem;
  a.row_tiles = DivideUp(problem.query_length, Engine::kRows);
  a.slices = static_cast<int>(DivideUp(problem.dim, Engine::kSumColumns));
  const int bytes =
      RowBytes<Engine>(problem) +
      Stages<Engine, kSteps * 8 * Engine::kColumnTiles>::Bytes(problem.dim, problem.value_dim);
  const int64_t blocks = a.row_tiles * a.slices * problem.groups;
  if (blocks == 0) return;
  LaunchBlocks(ExactQueryGradientsKernel<Engine, kSteps>, blocks, Engine::kThreads, bytes, a,
               context);
}

template <class Engine, int kSteps>
void LaunchKeyGradients(ExactBackward a, const Context& context) {
  const ExactProblem& problem = a.problem;
  a.row_tiles = DivideUp(problem.key_length, Engine::kRows);
  a.slices =
      static_cast<int>(DivideUp(std::max(problem.dim, problem.value_dim), Engine::kSumColumns));
  const int bytes =
      RowBytes<Engine>(problem) +
      Stages<Engine, kSteps * 8 * Engine::kColumnTiles>::Bytes(problem.dim, problem.value_dim);
  const int64_t blocks =
      a.row_tiles * a.slices * (problem.groups / problem.heads) * problem.kv_heads;
  if (blocks == 0) return;
  LaunchBlocks(ExactKeyGradientsKernel<Engine, kSteps>, blocks, Engine::kThreads, bytes, a,
               context);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_GRADIENTS_CUH_
