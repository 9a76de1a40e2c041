// Operands of large matrix products, copied into the order in which tiles read them, kDepth terms
// of the sum at a time.
#ifndef FAVOR_KERNELS_CPU_PACKED_H_
#define FAVOR_KERNELS_CPU_PACKED_H_

#include <algorithm>
#include <cstdint>

#include "core/scratch.h"
#include "kernels/cpu/simd/gemm_types.h"

namespace favor::kernels::cpu {

// Either rows or columns are contiguous.
struct Matrix {
  const float* data;
  int64_t row_step, column_step;

  Matrix At(int64_t row, int64_t column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
};

constexpr int64_t DepthBlocks(int64_t depth) { return (depth + kDepth - 1) / kDepth; }

// A [rows, depth] whose columns are contiguous, in tiles of six rows: the six elements of one term
// after the other.
class PackedA {
 public:
  PackedA(int64_t rows, int64_t depth, const Context& context)
      : tiles_((rows + kTileRows - 1) / kTileRows),
        values_(context, std::max(DepthBlocks(depth) * tiles_ * kTile, int64_t{1})) {}

  // The term that packing begins with from now on.
  void StartAt(int64_t first) { first_ = first; }
  // Packs rows [begin, end) of `a`, `begin` being a multiple of 6: terms up to `last`.
  void Fill(const Matrix& a, int64_t last, int64_t begin, int64_t end);
  // From `row` on, a multiple of 6, kDepth terms from `depth` on.
  Operand At(int64_t row, int64_t depth) const {
    return {values_.data() + ((depth - first_) / kDepth * tiles_ + row / kTileRows) * kTile, 1,
            kTileRows, kTile};
  }

 private:
  static constexpr int64_t kTile = kTileRows * kDepth;

  int64_t tiles_, first_ = 0;
  Scratch<float> values_;
};

// B [depth, columns], in panels of 64 columns, the last padded with zeros to whole vectors.
class PackedB {
 public:
  static constexpr int64_t kPanel = 64;

  PackedB(int64_t depth, int64_t columns, const Context& context)
      : panels_((columns + kPanel - 1) / kPanel),
        values_(context, DepthBlocks(depth) * panels_ * kDepth * kPanel) {}

  // `b` is packed in this many pieces, each by one call of Fill.
  static int64_t Pieces(int64_t depth);
  void Fill(const Matrix& b, int64_t depth, int64_t columns, int64_t piece);
  // kDepth terms from `depth` on, in rows of kPanel floats; `column` is a multiple of kPanel.
  const float* At(int64_t column, int64_t depth) const { return Panel(column, depth); }

 private:
  float* Panel(int64_t column, int64_t depth) const {
    return values_.data() + (depth / kDepth * panels_ + column / kPanel) * kDepth * kPanel +
           depth % kDepth * kPanel;
  }

  int64_t panels_;
  Scratch<float> values_;
};

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_PACKED_H_
