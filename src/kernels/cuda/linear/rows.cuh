// What a thread block of the general kernels works with: panels of rows with their features, in
// memory of its own that stays in the L2 cache, and what queries and keys are read into.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_ROWS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_ROWS_CUH_

#include "kernels/cuda/linear/maps.cuh"

namespace favor::kernels::cuda::general {

constexpr int kPanelRows = 64;

// Numbers of the rows of a panel, in shared memory.
struct RowNumbers {
  double shift[kPanelRows];       // what all features of a row share in their exponents
  double log_factor[kPanelRows];  // queries of a forward call: normalisers and the shift of means
  float multiple[kPanelRows];     // what a row counts in z: 1, or δ
  int exists[kPanelRows];
};

// The rows of one side.
struct Panel {
  float* x;      // [rows, dim]
  float* value;  // [rows, value_dim], zeros for a row that does not exist
  float* u;      // [rows, omega rows]
  float *e, *g;  // [rows, width], exponents and factors; no factors: null
  float* w;      // [rows, width], weights
  RowNumbers* numbers;
};

// Hands out parts of a block's memory; without memory it counts them.
class Carver {
 public:
  __host__ __device__ explicit Carver(float* memory) : memory_(memory) {}

  __host__ __device__ float* Take(int64_t count) {
    float* part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 3) / 4 * 4;
    return part;
  }
  __host__ __device__ double* TakeDoubles(int64_t count) {
    return reinterpret_cast<double*>(Take(2 * count));
  }
  __host__ __device__ int64_t used() const { return used_; }

 private:
  float* memory_;
  int64_t used_ = 0;
};

// `keeps_u`: ω·x is needed once weights are there.
__host__ __device__ inline Panel CarvePanel(Carver& carver, const MapConstants& map, int value_dim,
                                            bool keeps_u) {
  const int64_t weights = int64_t{kPanelRows} * map.width;
  Panel panel{};
  panel.x = carver.Take(int64_t{kPanelRows} * map.dim);
  panel.value = carver.Take(int64_t{kPanelRows} * value_dim);
  panel.e = carver.Take(weights);
  panel.g = map.has_factor ? carver.Take(weights) : nullptr;
  panel.w = carver.Take(weights);
  panel.u = keeps_u ? carver.Take(int64_t{kPanelRows} * map.omega_rows) : panel.w;
  return panel;
}

// The running state of a segment: exponents in double, whose small changes add up.
struct RunningState {
  double* c;     // [width]
  float *z, *s;  // [width], [width, value_dim]
};

__device__ inline void LoadKeys(const Call& a, const Head& head, int64_t begin, int count,
                                const Panel& panel) {
  const int lane = threadIdx.x % kLanes;
  for (int row = threadIdx.x / kLanes; row < count; row += kWarps) {
    const int64_t index = begin + row;
    const bool exists =
        a.mask.data == nullptr || a.mask.Load(a.mask.At(head.batch, head.kv_head, index)) != 0;
    const int64_t key = a.k.At(head.batch, head.kv_head, index),
                  value = a.v.At(head.batch, head.kv_head, index),
                  mean = a.key_mean.At(head.batch, head.head, 0);
    double square = 0;
    for (int i = lane; i < a.dim; i += kLanes) {
      double x = exists ? a.k.Load(key + i * a.k.column) : 0;
      if (exists && a.key_mean.data != nullptr) x -= a.key_mean.Load(mean + i * a.key_mean.row);
      x *= a.sqrt_scale;
      square += x * x;
      panel.x[row * a.dim + i] = static_cast<float>(x);
    }
    square = SumOfWarp(square);
    for (int i = lane; i < a.value_dim; i += kLanes)
      panel.value[row * a.value_dim + i] =
          exists ? static_cast<float>(a.v.Load(value + i * a.v.column)) : 0.0f;
    if (lane > 0) continue;
    panel.numbers->shift[row] = a.map.norm_slope * square / 2;
    panel.numbers->log_factor[row] = 0;
    panel.numbers->multiple[row] = exists ? 1 : 0;
    panel.numbers->exists[row] = exists;
  }
}

// For a backward call (`adjoint`) with dO and δ, and exponents relative to log_sum.
__device__ inline void LoadQueries(const Call& a, const Head& head, const HeadConstants& constants,
                                   bool adjoint, int64_t begin, int count, const Panel& panel) {
  const int lane = threadIdx.x % kLanes;
  for (int row = threadIdx.x / kLanes; row < count; row += kWarps) {
    const int64_t index = begin + row;
    const int64_t query = a.q.At(head.batch, head.head, index),
                  mean = a.key_mean.At(head.batch, head.head, 0);
    double square = 0, dot = 0;
    for (int i = lane; i < a.dim; i += kLanes) {
      const double q = a.q.Load(query + i * a.q.column), x = q * a.sqrt_scale;
      square += x * x;
      if (a.key_mean.data != nullptr) dot += q * a.key_mean.Load(mean + i * a.key_mean.row);
      panel.x[row * a.dim + i] = static_cast<float>(x);
    }
    square = SumOfWarp(square);
    const double log_factor = 2 * constants.log_normalizer + a.scale * SumOfWarp(dot);
    double log_sum = 0;
    if (adjoint) log_sum = a.log_sum.Load(a.log_sum.At(head.batch, head.head, index));
    const bool exists = log_sum < INFINITY;
    const int64_t gradient = a.grad_out.At(head.batch, head.head, index);
    for (int i = lane; adjoint && i < a.value_dim; i += kLanes)
      panel.value[row * a.value_dim + i] =
          exists ? static_cast<float>(a.grad_out.Load(gradient + i * a.grad_out.column)) : 0.0f;
    if (lane > 0) continue;
    const double norm = a.map.norm_slope * square / 2;
    panel.numbers->shift[row] = adjoint && exists ? norm + log_factor - log_sum : norm;
    panel.numbers->log_factor[row] = log_factor;
    panel.numbers->multiple[row] =
        adjoint && exists
            ? static_cast<float>(a.delta.Load(a.delta.At(head.batch, head.head, index)))
            : 0;
    panel.numbers->exists[row] = exists;
  }
}

// ω·x and the features of the rows that were loaded.
__device__ inline void FindPanel(const Call& a, const HeadConstants& constants, bool of_keys,
                                 int count, const Panel& panel, ProductTiles& tiles) {
  const MapConstants& map = a.map;
  if (!map.is_row_map) {
    Multiply({.a = panel.x,
              .a_row = map.dim,
              .a_depth = 1,
              .b = constants.omega,
              .b_column = map.dim,
              .b_depth = 1,
              .rows = count,
              .columns = map.omega_rows,
              .depth = map.dim,
              .c = panel.u,
              .c_row = map.omega_rows},
             tiles);
  }
  FindFeatures(map, constants,
               {.first = 0,
                .count = count,
                .of_keys = of_keys,
                .x = panel.x,
                .u = panel.u,
                .e = panel.e,
                .g = panel.g});
}

// Blocks of a launch over `items` pieces of work with `floats` of memory each, so that all have
// about as many pieces. `few`: hardly any piece is to be done.
inline int64_t BlocksFor(int64_t items, int64_t floats, bool few = false) {
  const int64_t most_bytes = int64_t{few ? 12 : 120} << 20;
  const int64_t affordable = most_bytes / (floats * static_cast<int64_t>(sizeof(float)));
  const int64_t most = std::max<int64_t>(1, std::min(kMostSegments, affordable));
  const int64_t pieces = std::max<int64_t>(1, (items + most - 1) / most);
  return std::max<int64_t>(1, (items + pieces - 1) / pieces);
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_ROWS_CUH_
