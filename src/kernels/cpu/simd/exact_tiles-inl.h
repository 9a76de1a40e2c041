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

// [count ≤ kExactBlock, RowStep(columns)] → [columns, RowStep(kExactBlock)], lanes past the last
// are 0.
HWY_INLINE void TransposeTile(const float* from, int64_t count, int64_t columns, float* to) {
  constexpr int64_t kStep = RowStep(kExactBlock);
  const int64_t step = RowStep(columns);
  for (int64_t i = 0; i < columns; ++i, to += kStep) {
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = from[lane * step + i];
    std::fill(to + count, to + kStep, 0.0f);
  }
}

// Scores of one row: −∞ in lanes outside `shown`, a range of rows of which `first` is in lane 0.
HWY_INLINE void HideOutside(RowRange shown, int64_t first, float* scores) {
  const int64_t begin = std::clamp<int64_t>(shown.begin - first, 0, kExactBlock),
                end = std::clamp<int64_t>(shown.end - first, begin, kExactBlock);
  std::fill(scores, scores + begin, -INFINITY);
  std::fill(scores + end, scores + kExactBlock, -INFINITY);
}

// Scores of keys [block, block + count), rows, and queries from `first` on, lanes: −∞ if the key
// does not exist or the query does not see it.
HWY_INLINE void HideScores(const ExactHead& rows, int64_t first, int64_t block, int64_t count,
                           float* scores) {
  constexpr int64_t kStep = RowStep(kExactBlock);
  for (int64_t j = 0; rows.mask != nullptr && j < count; ++j) {
    if (rows.mask[block + j] == 0) std::fill_n(scores + j * kStep, kExactBlock, -INFINITY);
  }
  if (!rows.causal && rows.window < 0) return;
  const auto hide = [&](int64_t begin, int64_t end) {
    for (int64_t key = begin; key < end; ++key)
      HideOutside(rows.QueriesSeeing({key, key + 1}), first, scores + (key - block) * kStep);
  };
  // All lanes see the keys between these two.
  const int64_t last = std::min(first + kExactBlock, rows.queries.size(0)) - 1;
  hide(block, std::min(block + count, rows.KeysSeenBy({last, last + 1}).begin));
  hide(std::max(block, rows.KeysSeenBy({first, first + 1}).end), block + count);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FAVOR_KERNELS_CPU_SIMD_EXACT_TILES_INL_H_
