// Tiles of exact attention, for the SIMD target being compiled: rows of the caller as operands of
// products, and the scores that a mask or causality hides.
#if defined(FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_
#undef FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_
#else
#define FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/scratch.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd/rows-inl.h"
#include "kernels/head_rows.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

constexpr int64_t kExactBlock = 64;  // rows along the lanes

// Rows of a matrix times scale, [count, RowStep(columns)], padded with zeros; rows that the mask
// takes out are zeros.
HWY_INLINE void LoadTile(const ConstView& rows, const float* mask, RowRange range, double scale,
                         float* to) {
  const int64_t step = RowStep(rows.size(1));
  for (int64_t row = range.begin; row < range.end; ++row, to += step) {
    if (mask != nullptr && mask[row] == 0) {
      std::fill_n(to, step, 0.0f);
    } else {
      LoadRow(rows, row, nullptr, scale, step, to);
    }
  }
}

// Blocks of rows of a matrix as operands of a product: read where they are when they are floats,
// else from a copy. Rows that the mask takes out are zeros.
class ExactOperand {
 public:
  ExactOperand(const ConstView& rows, const float* mask, int64_t max_rows, const Context& context)
      : rows_(rows),
        mask_(mask),
        step_(RowStep(rows.size(1))),
        copies_(mask != nullptr || rows.type() != DataType::kF32),
        copy_(context, copies_ ? max_rows * step_ : 0) {}

  // Element (i, k) is column k of row begin + i, or (Columns) column i of row begin + k.
  Operand Rows(int64_t begin, int64_t count) const {
    const Operand rows = Load(begin, count);
    return {rows.data, rows.row_step, rows.depth_step};
  }
  Operand Columns(int64_t begin, int64_t count) const {
    const Operand rows = Load(begin, count);
    return {rows.data, rows.depth_step, rows.row_step};
  }

 private:
  Operand Load(int64_t begin, int64_t count) const {
    if (!copies_) {
      return {static_cast<const float*>(rows_.data()) + begin * rows_.stride(0), rows_.stride(0),
              rows_.stride(1)};
    }
    LoadTile(rows_, mask_, {begin, begin + count}, 1, copy_.data());
    return {copy_.data(), step_, 1};
  }

  const ConstView& rows_;
  const float* mask_;
  int64_t step_;
  bool copies_;
  Scratch<float> copy_;
};

// to[column, row] = from[row, column].
HWY_INLINE void Transpose(const float* from, int64_t from_step, int64_t rows, int64_t columns,
                          float* to, int64_t to_step) {
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> four;
  for (; row + 4 <= rows; row += 4) {
    int64_t column = 0;
    for (; column + 4 <= columns; column += 4) {
      const float* at = from + row * from_step + column;
      float* out = to + column * to_step + row;
      const auto a = hn::LoadU(four, at), b = hn::LoadU(four, at + from_step),
                 c = hn::LoadU(four, at + 2 * from_step), d = hn::LoadU(four, at + 3 * from_step);
      const auto ab = hn::InterleaveLower(four, a, b), cd = hn::InterleaveLower(four, c, d);
      hn::StoreU(hn::ConcatLowerLower(four, cd, ab), four, out);
      hn::StoreU(hn::ConcatUpperUpper(four, cd, ab), four, out + to_step);
      const auto ab_upper = hn::InterleaveUpper(four, a, b),
                 cd_upper = hn::InterleaveUpper(four, c, d);
      hn::StoreU(hn::ConcatLowerLower(four, cd_upper, ab_upper), four, out + 2 * to_step);
      hn::StoreU(hn::ConcatUpperUpper(four, cd_upper, ab_upper), four, out + 3 * to_step);
    }
    for (; column < columns; ++column) {
      for (int64_t i = row; i < row + 4; ++i)
        to[column * to_step + i] = from[i * from_step + column];
    }
  }
#endif
  for (; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column)
      to[column * to_step + row] = from[row * from_step + column];
  }
}

// [count ≤ lanes, RowStep(columns)] → [columns, RowStep(lanes)], lanes past the last are 0.
HWY_INLINE void TransposeTile(const float* from, int64_t count, int64_t columns, int64_t lanes,
                              float* to) {
  const int64_t step = RowStep(lanes);
  Transpose(from, RowStep(columns), count, columns, to, step);
  for (int64_t i = 0; i < columns; ++i) std::fill(to + i * step + count, to + (i + 1) * step, 0.0f);
}

// Lanes that stand for rows of a range, if lane 0 of the vector stands for `first`.
HWY_INLINE hn::Mask<FloatTag> LanesOf(RowRange rows, int64_t first) {
  const FloatTag tag;
  const Floats lane = hn::Iota(tag, 0.0f);
  const auto at = [&](int64_t row) {
    return hn::Set(tag, static_cast<float>(std::clamp<int64_t>(row - first, 0, Lanes())));
  };
  return hn::And(hn::Ge(lane, at(rows.begin)), hn::Lt(lane, at(rows.end)));
}

// Scores of a range of keys, rows of a tile, by one vector of queries, of which the first is
// `query`: −∞ if the key does not exist or the query does not see it.
HWY_INLINE void HideScores(const ExactHead& rows, RowRange keys, int64_t query, float* scores,
                           int64_t step) {
  const FloatTag tag;
  const Floats nothing = hn::Set(tag, -INFINITY);
  const auto row = [&](int64_t key) { return scores + (key - keys.begin) * step; };
  for (int64_t key = keys.begin; rows.mask != nullptr && key < keys.end; ++key) {
    if (rows.mask[key] == 0) hn::StoreU(nothing, tag, row(key));
  }
  if (!rows.causal && rows.window < 0) return;
  const auto hide = [&](int64_t begin, int64_t end) {
    for (int64_t key = begin; key < end; ++key) {
      const auto seeing = LanesOf(rows.QueriesSeeing({key, key + 1}), query);
      hn::StoreU(hn::IfThenElse(seeing, hn::LoadU(tag, row(key)), nothing), tag, row(key));
    }
  };
  // All lanes see the keys between these two.
  const int64_t last = std::min(query + Lanes(), rows.queries.size(0)) - 1;
  hide(keys.begin, std::min(keys.end, rows.KeysSeenBy({last, last + 1}).begin));
  hide(std::max(keys.begin, rows.KeysSeenBy({query, query + 1}).end), keys.end);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_
