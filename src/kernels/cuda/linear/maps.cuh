// Features of a panel of rows and their gradients, by one thread block: the formulas of
// kernels/maps/, compiled for the device. A map is chosen once per panel.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_MAPS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_MAPS_CUH_

#include "kernels/cuda/linear/call.cuh"
#include "kernels/cuda/parts/block_product.cuh"
#include "kernels/cuda/parts/block_threads.cuh"
#include "maps_includes.h"

namespace favor::kernels::cuda::general {

constexpr float kWeightLimit = 80;  // weights are at most e^80

// e^exponent. Exponents are added in double: their terms are far larger than the sum.
__device__ inline float Weight(double exponent) {
  return __expf(fminf(static_cast<float>(exponent), kWeightLimit));
}

// The constants of one head.
struct HeadConstants {
  const float *omega, *offset, *mask_weight;
  const float* squared_norm;  // null: `offset` is right
  float oprf_a, argument_scale;
  double log_normalizer;

  __device__ HeadConstants(const Call& a, const Head& head) {
    const MapConstants& map = a.map;
    const int64_t entry = map.entries == 1 ? 0 : head.head;
    omega = map.omega + entry * map.omega_rows * map.dim;
    offset = map.offset + entry * map.features;
    mask_weight = map.mask_weight == nullptr ? nullptr : map.mask_weight + entry * map.features;
    squared_norm = nullptr;
    oprf_a = 0;
    argument_scale = map.is_row_map ? 1 : map.argument_scale[entry];
    log_normalizer = map.is_row_map ? 0 : map.log_normalizer[entry];
    if (a.oprf_a.data == nullptr || map.squared_norm == nullptr) return;
    const double own = a.oprf_a.Load(a.oprf_a.At(head.batch, head.head, 0));
    squared_norm = map.squared_norm + entry * map.features;
    oprf_a = static_cast<float>(own);
    argument_scale = static_cast<float>(sqrt(1 - 4 * own));
    log_normalizer = map.plain_log_normalizer + map.dim / 4.0 * log(1 - 4 * own);
  }
  __device__ float Offset(int r) const {
    return squared_norm == nullptr ? offset[r] : oprf_a * squared_norm[r];
  }
  // HeadFeatures::Weigh.
  __device__ float FactorWeight(int r, bool of_keys) const {
    if (mask_weight == nullptr) return 1;
    const float root = sqrtf(fabsf(mask_weight[r]));
    return of_keys ? copysignf(root, mask_weight[r]) : root;
  }
};

// Rows first … first + count − 1 of a panel. Exponents come without what all features of a row
// share.
struct MapRows {
  int first, count;
  bool of_keys;
  const float* x;  // [rows, dim]
  float* u;        // [rows, omega rows], ω·x
  float *e, *g;    // [rows, width]; g is null if the map has no factor
  // Of the block, those that work on these rows. Row maps take all.
  int first_thread = 0, threads = kBlockThreads;
};

template <class Map>
__device__ void FeaturesOf(const MapConstants& map, const HeadConstants& head,
                           const MapRows& rows) {
  constexpr int kParts = Map::kTraits.info.parts;
  const int features = map.features;
  for (int i = threadIdx.x - rows.first_thread; i < rows.count * features; i += rows.threads) {
    const int row = rows.first + i / features, r = i % features;
    const float* line = rows.u + row * map.omega_rows + r;
    const float u = head.argument_scale * line[0];
    const float factor_u = kIsMasked<Map> ? head.argument_scale * line[features] : u;
    const float offset = head.Offset(r);
    for (int part = 0; part < kParts; ++part) {
      const int at = row * map.width + part * features + r;
      rows.e[at] = Map::Exponent(u, part, map.epsilon) + offset;
      if (Map::kTraits.has_factor)
        rows.g[at] = Map::Factor(factor_u, part, map.epsilon) * head.FactorWeight(r, rows.of_keys);
    }
  }
}

// Monomials: lanes share the columns of a row (monomials.h).
__device__ inline void MonomialsOf(const MapConstants& map, const MapRows& rows) {
  const RowMapTables& tables = map.tables;
  const int64_t begin = map.first_column, end = begin + map.width;
  int64_t places[kMaxPolynomialDegree];
  for (int row = rows.first + threadIdx.x / kLanes; row < rows.first + rows.count; row += kWarps) {
    const float* x = rows.x + row * map.dim;
    float *e = rows.e + row * map.width, *g = rows.g + row * map.width;
    const int lane = threadIdx.x % kLanes;
    // Calls work(j) for those of columns first … first + count − 1 that are here.
    const auto for_columns = [&](int64_t first, int64_t count, const auto& work) {
      for (int64_t j = max(begin - first, int64_t{0}) + lane; j < min(count, end - first);
           j += kLanes)
        work(j);
    };
    for (int r = lane; r < map.width; r += kLanes) e[r] = 0;
    if (tables.block_count > 0 && tables.blocks[0].degree == 0) {
      const PolynomialBlock& block = tables.blocks[0];
      for_columns(block.first, 1, [&](int64_t) {
        g[block.first - begin] = static_cast<float>(sqrt(fabs(block.coefficient)));
      });
    }
    for (int64_t r = 0; r < tables.run_count; ++r) {
      const MonomialRun& run = tables.runs[r];
      if (run.column < 0) continue;
      for_columns(run.column, run.length, [&](int64_t i) {
        FactorPlaces(tables, r, i, places);
        float product = 1;
        for (int t = run.degree - 1; t >= 0; --t) product *= x[places[t]];
        g[run.column + i - begin] = product * static_cast<float>(run.weight);
      });
    }
    __syncwarp();
    for (int64_t b = 0; rows.of_keys && b < tables.block_count; ++b) {
      const PolynomialBlock& block = tables.blocks[b];
      if (block.coefficient >= 0) continue;
      for_columns(block.first, block.columns,
                  [&](int64_t j) { g[block.first + j - begin] = -g[block.first + j - begin]; });
    }
  }
}

// Gradients of a panel: of weights come in; of ω·x go out, in the place of u, or for row maps of x.
struct MapRowGradients {
  MapRows rows;
  float* grad_weights;    // [rows, width]; changed
  const double* shift;    // [rows], what all features of a row share in their exponents
  const int* exists;      // [rows]
  const double* maximum;  // [width]: weights are e^(e + shift + maximum)·g
  float* grad_x;          // [rows, dim], row maps only
  float* sums;            // [rows]: gradients of `shift`
};

template <class Map>
__device__ void FeatureGradientsOf(const MapConstants& map, const HeadConstants& head,
                                   const MapRowGradients& a) {
  constexpr int kParts = Map::kTraits.info.parts;
  const MapRows& rows = a.rows;
  const int features = map.features;
  for (int row = rows.first + threadIdx.x / kLanes; row < rows.first + rows.count; row += kWarps) {
    float sum = 0;
    for (int r = threadIdx.x % kLanes; r < features; r += kLanes) {
      float* line = rows.u + row * map.omega_rows + r;
      const float u = head.argument_scale * line[0];
      const float factor_u = kIsMasked<Map> ? head.argument_scale * line[features] : u;
      const float weight = head.FactorWeight(r, rows.of_keys);
      float grad_u = 0, grad_factor_u = 0;
      for (int part = 0; part < kParts; ++part) {
        const int column = part * features + r, at = row * map.width + column;
        const float exponential =
            a.exists[row] ? Weight(rows.e[at] + a.shift[row] + a.maximum[column]) : 0.0f;
        const float grad_factor = exponential * a.grad_weights[at];
        const float grad_exponent =
            Map::kTraits.has_factor ? grad_factor * rows.g[at] : grad_factor;
        sum += grad_exponent;
        grad_u += grad_exponent * Map::ExponentSlope(u, part, map.epsilon);
        if (Map::kTraits.has_factor)
          (kIsMasked<Map> ? grad_factor_u : grad_u) +=
              grad_factor * weight * Map::FactorSlope(factor_u, part, map.epsilon);
      }
      line[0] = head.argument_scale * grad_u;
      if (kIsMasked<Map>) line[features] = head.argument_scale * grad_factor_u;
    }
    sum = static_cast<float>(SumOfWarp(sum));
    if (threadIdx.x % kLanes == 0) a.sums[row] = sum;
  }
}

__device__ inline void MonomialGradientsOf(const MapConstants& map, const MapRowGradients& a) {
  const RowMapTables& tables = map.tables;
  const MapRows& rows = a.rows;
  const int lane = threadIdx.x % kLanes;
  int64_t places[kMaxPolynomialDegree];
  for (int row = rows.first + threadIdx.x / kLanes; row < rows.first + rows.count; row += kWarps) {
    const float *x = rows.x + row * map.dim, *g = rows.g + row * map.width;
    float *grad = a.grad_weights + row * map.width, *grad_x = a.grad_x + row * map.dim;
    double sum = 0;
    for (int r = lane; r < map.width; r += kLanes) {
      grad[r] *= a.exists[row] ? Weight(a.shift[row] + a.maximum[r]) : 0.0f;
      sum += grad[r] * g[r];
    }
    sum = SumOfWarp(sum);
    if (lane == 0) a.sums[row] = static_cast<float>(sum);
    for (int64_t b = 0; rows.of_keys && b < tables.block_count; ++b) {
      const PolynomialBlock& block = tables.blocks[b];
      __syncwarp();
      for (int64_t j = lane; block.coefficient < 0 && j < block.columns; j += kLanes)
        grad[block.first + j] = -grad[block.first + j];
    }
    for (int i = lane; i < map.dim; i += kLanes) grad_x[i] = 0;
    __syncwarp();
    // Lanes have neighbouring monomials, whose factors are at different places of x.
    for (int64_t r = 0; r < tables.run_count; ++r) {
      const MonomialRun& run = tables.runs[r];
      for (int64_t begin = 0; run.column >= 0 && begin < run.length; begin += kLanes) {
        const int64_t i = begin + lane;
        if (i < run.length) FactorPlaces(tables, r, i, places);
        for (int t = 0; t < run.degree; ++t) {
          __syncwarp();
          if (i >= run.length) continue;
          float others = grad[run.column + i] * static_cast<float>(run.weight);
          for (int v = 0; v < run.degree; ++v) others *= v == t ? 1.0f : x[places[v]];
          grad_x[places[t]] += others;
        }
      }
    }
    __syncwarp();
  }
}

// Both are for all threads of a block, which wait before and after.
__noinline__ __device__ inline void FindFeatures(const MapConstants& map, const HeadConstants& head,
                                                 const MapRows& rows) {
  __syncthreads();
  if (map.is_row_map) {
    MonomialsOf(map, rows);
  } else {
    int entry = 0;
#define FAVOR_ENTRY(Map)                                    \
  if constexpr (!kIsRowMap<Map>) {                          \
    if (map.map == entry) FeaturesOf<Map>(map, head, rows); \
  }                                                         \
  ++entry;
#include "maps.inc"
#undef FAVOR_ENTRY
  }
  __syncthreads();
}
__noinline__ __device__ inline void FindFeatureGradients(const MapConstants& map,
                                                         const HeadConstants& head,
                                                         const MapRowGradients& a) {
  __syncthreads();
  if (map.is_row_map) {
    MonomialGradientsOf(map, a);
  } else {
    int entry = 0;
#define FAVOR_ENTRY(Map)                                         \
  if constexpr (!kIsRowMap<Map>) {                               \
    if (map.map == entry) FeatureGradientsOf<Map>(map, head, a); \
  }                                                              \
  ++entry;
#include "maps.inc"
#undef FAVOR_ENTRY
  }
  __syncthreads();
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_MAPS_CUH_
