// The matrix products, once for each SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/gemm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/simd/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// A tile has 6 rows × 4 vectors if there are 32 registers, else 6 × 2.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 2;
#endif

// Rows [row, row + kRows) of C: a tile, or a part of the last one.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyTile(const Operand& a, const float* b, int64_t b_step, int64_t depth,
                             const Result& c, int64_t row, int64_t column) {
  const FloatTag d;
  Floats sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::Zero(d);
  }
  const float* a_row[kRows];
  const float* tile = a.data + row / kTileRows * a.tile_step;
  for (int i = 0; i < kRows; ++i) a_row[i] = tile + (row % kTileRows + i) * a.row_step;
  b += column;
  for (int64_t k = 0; k < depth; ++k, b += b_step) {
    Floats values[kVectors];
    for (int j = 0; j < kVectors; ++j) values[j] = hn::LoadU(d, b + j * Lanes());
    for (int i = 0; i < kRows; ++i) {
      const Floats factor = hn::Set(d, a_row[i][k * a.depth_step]);
      for (int j = 0; j < kVectors; ++j) sums[i][j] = hn::MulAdd(factor, values[j], sums[i][j]);
    }
  }
  float* to[kRows];
  for (int i = 0; i < kRows; ++i) to[i] = c.data + (row + i) * c.step + column;
  if (c.mode == ResultMode::kStore) {
    Floats bias[kVectors];
    for (int j = 0; j < kVectors; ++j)
      bias[j] = c.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, c.bias + column + j * Lanes());
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(8)
      for (int j = 0; j < kVectors; ++j)
        hn::StoreU(hn::Add(bias[j], sums[i][j]), d, to[i] + j * Lanes());
    }
  } else if (c.mode == ResultMode::kAdd) {
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(8)
      for (int j = 0; j < kVectors; ++j) {
        float* at = to[i] + j * Lanes();
        hn::StoreU(hn::Add(hn::LoadU(d, at), sums[i][j]), d, at);
      }
    }
  } else {
    const int64_t rest = c.rest - c.data;
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      HWY_UNROLL(8)
      for (int j = 0; j < kVectors; ++j) {
        const auto scale = [&](const float* of_columns, const float* of_rows) {
          if (of_columns != nullptr) return hn::LoadU(d, of_columns + column + j * Lanes());
          return hn::Set(d, of_rows != nullptr ? of_rows[row + i] : 1.0f);
        };
        AddExactly(hn::Mul(sums[i][j], scale(c.column_factor, c.row_factor)),
                   scale(c.column_decay, c.row_decay), to[i] + j * Lanes(),
                   to[i] + rest + j * Lanes());
      }
    }
  }
}

template <int kVectors>
HWY_INLINE void MultiplyPanel(const Operand& a, const float* b, int64_t b_step, int64_t rows,
                              int64_t depth, const Result& c, int64_t column) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows)
    MultiplyTile<kTileRows, kVectors>(a, b, b_step, depth, c, row, column);
  if (row + 4 <= rows) {
    MultiplyTile<4, kVectors>(a, b, b_step, depth, c, row, column);
    row += 4;
  }
  if (row + 2 <= rows) {
    MultiplyTile<2, kVectors>(a, b, b_step, depth, c, row, column);
    row += 2;
  }
  if (row < rows) MultiplyTile<1, kVectors>(a, b, b_step, depth, c, row, column);
}

// The depth is cut so that a panel of B stays in the L1 cache; C then collects the parts.
void Multiply(const Operand& a, const float* b, int64_t b_step, int64_t rows, int64_t columns,
              int64_t depth, const Result& c) {
  const int64_t vectors = PaddedColumns(columns) / Lanes();
  Result part = c;
  const int64_t most = c.mode == ResultMode::kAddExactly ? kDepthOfPairs : kDepth;
  for (int64_t first = 0; first < depth; first += most) {
    const int64_t block = std::min(most, depth - first);
    const Operand a_block{a.data + first * a.depth_step, a.row_step, a.depth_step, a.tile_step};
    const float* b_block = b + first * b_step;
    int64_t vector = 0;
    for (; vector + kTileVectors <= vectors; vector += kTileVectors)
      MultiplyPanel<kTileVectors>(a_block, b_block, b_step, rows, block, part, vector * Lanes());
    if (kTileVectors > 2 && vector + 2 <= vectors) {
      MultiplyPanel<2>(a_block, b_block, b_step, rows, block, part, vector * Lanes());
      vector += 2;
    }
    for (; vector < vectors; ++vector)
      MultiplyPanel<1>(a_block, b_block, b_step, rows, block, part, vector * Lanes());
    if (part.mode == ResultMode::kStore) part.mode = ResultMode::kAdd;
    part.column_decay = part.row_decay = nullptr;  // C decays once, with the first part
  }
}

#if HWY_TARGET == HWY_SCALAR
void MultiplyRows(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t rows,
                  int64_t columns, int64_t depth, bool lower, float* c, int64_t c_step) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < (lower ? std::min(columns, i + 1) : columns); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a[i * a_step + k] * b[j * b_step + k];
      c[i * c_step + j] = sum;
    }
  }
}
#else
// The sums of the lanes of four vectors, as four floats.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> SumsOfFour(Floats a, Floats b, Floats c, Floats d) {
  const FloatTag tag;
  const Floats ac = hn::Add(hn::InterleaveLower(tag, a, c), hn::InterleaveUpper(tag, a, c));
  const Floats bd = hn::Add(hn::InterleaveLower(tag, b, d), hn::InterleaveUpper(tag, b, d));
  const Floats blocks = hn::Add(hn::InterleaveLower(tag, ac, bd), hn::InterleaveUpper(tag, ac, bd));
#if HWY_TARGET <= HWY_AVX3
  const hn::Half<FloatTag> half;
  const hn::Half<decltype(half)> quarter;
  const auto two = hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks));
  return hn::Add(hn::LowerHalf(quarter, two), hn::UpperHalf(quarter, two));
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<FloatTag> half;
  return hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks));
#else
  return blocks;
#endif
}

// Rows [row, row + kRows) of C, columns [column, column + 4).
template <int kRows>
HWY_INLINE void MultiplyRowsTile(const float* a, int64_t a_step, const float* b, int64_t b_step,
                                 int64_t depth, float* c, int64_t c_step, int64_t row,
                                 int64_t column) {
  const FloatTag d;
  Floats sums[kRows][4];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < 4; ++j) sums[i][j] = hn::Zero(d);
  }
  a += row * a_step;
  b += column * b_step;
  for (int64_t k = 0; k < depth; k += Lanes()) {
    Floats right[4];
    for (int j = 0; j < 4; ++j) right[j] = hn::LoadU(d, b + j * b_step + k);
    for (int i = 0; i < kRows; ++i) {
      const Floats left = hn::LoadU(d, a + i * a_step + k);
      for (int j = 0; j < 4; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    hn::StoreU(SumsOfFour(sums[i][0], sums[i][1], sums[i][2], sums[i][3]), hn::FixedTag<float, 4>(),
               c + (row + i) * c_step + column);
  }
}

void MultiplyRows(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t rows,
                  int64_t columns, int64_t depth, bool lower, float* c, int64_t c_step) {
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM
  constexpr int kRows = 6;
#else
  constexpr int kRows = 2;
#endif
  for (int64_t row = 0; row < rows; row += kRows) {
    const int64_t last = std::min(rows, row + kRows);
    const int64_t needed = lower ? std::min(columns, last) : columns;
    for (int64_t column = 0; column < needed; column += 4) {
      if (last - row == kRows) {
        MultiplyRowsTile<kRows>(a, a_step, b, b_step, depth, c, c_step, row, column);
        continue;
      }
      for (int64_t one = row; one < last; ++one)
        MultiplyRowsTile<1>(a, a_step, b, b_step, depth, c, c_step, one, column);
    }
  }
}
#endif  // HWY_SCALAR

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
