// Tiles of kLanes rows, transposed: [columns, kLanes], 64-byte aligned. Lanes past the last row are
// zero. The products here are all the matrix arithmetic of the CPU kernels.
#ifndef FAVOR_KERNELS_CPU_TILE_H_
#define FAVOR_KERNELS_CPU_TILE_H_

#include <algorithm>
#include <cstdint>

#include "core/element.h"
#include "favor/tensor.h"
#include "kernels/cpu/lanes.h"

namespace favor::kernels::cpu {

inline void LoadTile(const float* rows, int64_t count, int64_t columns, float* tile) {
  if (count < kLanes) std::fill_n(tile, columns * kLanes, 0.0f);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t i = 0; i < columns; ++i) tile[i * kLanes + lane] = rows[lane * columns + i];
  }
}

// (row − mean)·scale of `count` rows of a view of any type, rounded once.
inline void LoadTile(const ConstView& rows, int64_t begin, int64_t count, const double* mean,
                     double scale, float* tile) {
  const int64_t columns = rows.size(1);
  if (count < kLanes) std::fill_n(tile, columns * kLanes, 0.0f);
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t i = 0; i < columns; ++i) {
      const double value = ElementAt(rows, begin + lane, i);
      tile[i * kLanes + lane] =
          static_cast<float>((value - (mean != nullptr ? mean[i] : 0)) * scale);
    }
  }
}

// The same rows untransposed, [count, columns], as they are. Rows that the mask takes out are
// zeros, whatever they hold.
inline void LoadRows(const ConstView& rows, int64_t begin, int64_t count, const float* mask,
                     float* to) {
  const int64_t columns = rows.size(1);
  for (int64_t row = begin; row < begin + count; ++row, to += columns) {
    if (mask != nullptr && mask[row] == 0) {
      std::fill_n(to, columns, 0.0f);
      continue;
    }
    if (rows.type() == DataType::kF32 && rows.stride(1) == 1) {
      std::copy_n(static_cast<const float*>(rows.data()) + row * rows.stride(0), columns, to);
      continue;
    }
    for (int64_t i = 0; i < columns; ++i) {
      to[i] = static_cast<float>(ElementAt(rows, row, i));
    }
  }
}

inline void StoreTile(const float* tile, int64_t count, int64_t columns, float* rows) {
  for (int64_t lane = 0; lane < count; ++lane) {
    for (int64_t i = 0; i < columns; ++i) rows[lane * columns + i] = tile[i * kLanes + lane];
  }
}

// A matrix of floats by its two steps, so that a transpose costs nothing.
struct Matrix {
  const float* data;
  int64_t row_step, column_step;
};

// out[r] = Σ_i matrix(r, i)·x[i] (plus out[r] when `add`), lane by lane; two rows at a time in
// registers. Sums of kSumBlock terms are added up: rounding grows with the square root of their
// number and of the number of blocks, not of all terms.
constexpr int64_t kSumBlock = 16;

inline void Multiply(const Matrix& matrix, int64_t rows, int64_t columns, const float* x, bool add,
                     float* out) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    const float* first = matrix.data + r * matrix.row_step;
    const float* second = first + matrix.row_step;
    Lanes sum0 = add ? LoadLanes(out + r * kLanes) : Lanes{};
    Lanes sum1 = add ? LoadLanes(out + (r + 1) * kLanes) : Lanes{};
    for (int64_t begin = 0; begin < columns; begin += kSumBlock) {
      Lanes block0{}, block1{};
      for (int64_t i = begin; i < std::min(columns, begin + kSumBlock); ++i) {
        const Lanes value = LoadLanes(x + i * kLanes);
        block0 += first[i * matrix.column_step] * value;
        block1 += second[i * matrix.column_step] * value;
      }
      sum0 += block0;
      sum1 += block1;
    }
    StoreLanes(sum0, out + r * kLanes);
    StoreLanes(sum1, out + (r + 1) * kLanes);
  }
  for (; r < rows; ++r) {
    const float* row = matrix.data + r * matrix.row_step;
    Lanes sum = add ? LoadLanes(out + r * kLanes) : Lanes{};
    for (int64_t begin = 0; begin < columns; begin += kSumBlock) {
      Lanes block{};
      for (int64_t i = begin; i < std::min(columns, begin + kSumBlock); ++i) {
        block += row[i * matrix.column_step] * LoadLanes(x + i * kLanes);
      }
      sum += block;
    }
    StoreLanes(sum, out + r * kLanes);
  }
}

// Maximum over the first index of a tile, and over the lanes of one row.
inline Lanes MaxOverRows(const float* tile, int64_t rows, Lanes start) {
  for (int64_t r = 0; r < rows; ++r) start = Max(start, LoadLanes(tile + r * kLanes));
  return start;
}
inline float MaxOverLanes(const float* lanes) { return *std::max_element(lanes, lanes + kLanes); }

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_TILE_H_
