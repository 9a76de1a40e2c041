// Operands of the matrix products in gemm-inl.h; the same types for every SIMD target.
#ifndef FAVOR_KERNELS_CPU_SIMD_GEMM_TYPES_H_
#define FAVOR_KERNELS_CPU_SIMD_GEMM_TYPES_H_

#include <cstdint>

namespace favor::kernels::cpu {

// The widest vector has 16 floats; rows are padded to whole vectors, plus one cache line, so that
// consecutive rows do not compete for the same cache set.
constexpr int64_t kWidestVector = 16;
constexpr int64_t PaddedColumns(int64_t columns) {
  return (columns + kWidestVector - 1) / kWidestVector * kWidestVector;
}
constexpr int64_t RowStep(int64_t columns) { return PaddedColumns(columns) + kWidestVector; }

// Terms that are summed in registers before they join C. Joining pairs of floats costs more.
constexpr int64_t kDepth = 256, kDepthOfPairs = 128;

// Rows of C that are computed at a time: their sums stay in registers.
constexpr int64_t kTileRows = 6;

// Element (i, k) of the tile of rows 6t … 6t + 5 is data[t·tile_step + i·row_step + k·depth_step].
struct Operand {
  const float* data;
  int64_t row_step, depth_step;
  int64_t tile_step = kTileRows * row_step;
};

enum class ResultMode {
  kStore,
  kAdd,
  kAddExactly,  // data + rest ← decay·(data + rest) + factor·product
};

struct Result {
  float* data;
  int64_t step;  // between rows
  ResultMode mode = ResultMode::kStore;
  float* rest = nullptr;                // for kAddExactly, laid out like data
  const float* column_decay = nullptr;  // for kAddExactly; null: 1
  const float* bias = nullptr;          // for kStore: added to every row; null: none
  // For kAddExactly, in place of column_decay: one number per row; and the factor of the product,
  // per column or per row. Null: 1.
  const float *row_decay = nullptr, *column_factor = nullptr, *row_factor = nullptr;
};

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_GEMM_TYPES_H_
