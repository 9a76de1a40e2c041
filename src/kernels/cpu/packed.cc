#include "kernels/cpu/packed.h"

#include <cstring>

namespace favor::kernels::cpu {
namespace {

// Fills `to` [rows, columns] from a matrix whose columns are contiguous, through tiles of one cache
// line per row on both sides.
void TransposeRows(const float* from, int64_t from_step, int64_t rows, int64_t columns,
                   int64_t to_step, float* to) {
  constexpr int64_t kSide = 16;
  float tile[kSide][kSide] = {};
  for (int64_t begin = 0; begin < rows; begin += kSide) {
    const int64_t end = std::min(rows, begin + kSide);
    for (int64_t first = 0; first < columns; first += kSide) {
      const int64_t count = std::min(kSide, columns - first);
      for (int64_t j = 0; j < count; ++j)
        std::copy_n(from + (first + j) * from_step + begin, end - begin, tile[j]);
      for (int64_t i = begin; i < end; ++i) {
        float* row = to + i * to_step + first;
        for (int64_t j = 0; j < count; ++j) row[j] = tile[j][i - begin];
      }
    }
  }
}

constexpr int64_t kPieceTerms = 32;  // rows of B in one piece

}  // namespace

void PackedA::Fill(const Matrix& a, int64_t last, int64_t begin, int64_t end) {
  // Some terms of a few tiles at a time: whole lines on both sides, and the next terms are on their
  // way.
  constexpr int64_t kGroup = 8 * kTileRows, kTerms = 8;
  static_assert(kDepth % kTerms == 0);
  for (int64_t first = first_; first < last; first += kTerms) {
    const int64_t stop = std::min(last, first + kTerms), packed = first - first_;
    for (int64_t row = begin; row < end; row += kGroup) {
      const int64_t count = std::min(kGroup, end - row), whole = count / kTileRows * kTileRows;
      float* to = values_.data() + (packed / kDepth * tiles_ + row / kTileRows) * kTile +
                  packed % kDepth * kTileRows;
      for (int64_t k = first; k < stop; ++k, to += kTileRows) {
        const float* from = a.At(row, k).data;
        for (int64_t i = 0; i < count; i += kWidestVector)
          __builtin_prefetch(from + kTerms * a.column_step + i);
        for (int64_t i = 0; i < whole; i += kTileRows)
          std::memcpy(to + i * kDepth, from + i, kTileRows * sizeof(float));
        std::copy(from + whole, from + count, to + whole * kDepth);
      }
    }
  }
}

int64_t PackedB::Pieces(int64_t depth) { return (depth + kPieceTerms - 1) / kPieceTerms; }

void PackedB::Fill(const Matrix& b, int64_t depth, int64_t columns, int64_t piece) {
  const int64_t first = piece * kPieceTerms, rows = std::min(kPieceTerms, depth - first);
  if (b.column_step != 1) {
    for (int64_t column = 0; column < columns; column += kPanel) {
      TransposeRows(b.At(first, column).data, b.column_step, rows,
                    std::min(kPanel, columns - column), kPanel, Panel(column, first));
    }
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; column += kPanel) {
        std::copy_n(b.At(first + row, column).data, std::min(kPanel, columns - column),
                    Panel(column, first) + row * kPanel);
      }
    }
  }
  const int64_t used = columns % kPanel, padded = PaddedColumns(used);
  for (int64_t row = 0; used < padded && row < rows; ++row) {
    float* panel = Panel(columns - used, first) + row * kPanel;
    std::fill(panel + used, panel + padded, 0.0f);
  }
}

}  // namespace favor::kernels::cpu
