#include "core/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace favor {
namespace {

// Slices of one buffer [rows, parts, columns]: like those of a layer that makes q, k and v in one
// product.
View Slice(std::vector<float>& buffer, int64_t part, int64_t rows, int64_t parts, int64_t columns) {
  return {buffer.data() + part * columns,
          DataType::kF32,
          {rows, columns},
          {parts * columns, 1, 0, 0},
          Device{}};
}

TEST(Overlap, SlicesThatInterleaveDoNot) {
  std::vector<float> buffer(10 * 3 * 4);
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      EXPECT_EQ(Overlap(Slice(buffer, a, 10, 3, 4), Slice(buffer, b, 10, 3, 4)), a == b);
    }
  }
  // One column further, the slices share three of four columns.
  View shifted = Slice(buffer, 0, 10, 3, 4);
  EXPECT_TRUE(
      Overlap(View(buffer.data() + 1, DataType::kF32, {10, 4}, {12, 1, 0, 0}, Device{}), shifted));
  // The same columns, but only later rows.
  EXPECT_FALSE(Overlap(shifted.Range(0, 0, 5), shifted.Range(0, 5, 5)));
  EXPECT_TRUE(Overlap(shifted.Range(0, 0, 6), shifted.Range(0, 5, 5)));
}

// Compares every pair of small views with a list of their elements.
TEST(Overlap, MissesNothing) {
  std::vector<float> buffer(200);
  const auto elements = [](int64_t offset, int64_t rows, int64_t columns, int64_t step,
                           int64_t stride) {
    std::set<int64_t> all;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) all.insert(offset + i * step + j * stride);
    }
    return all;
  };
  int seen = 0;
  for (const int64_t step : {2, 5, 11, 20}) {
    for (const int64_t stride : {1, 2, 11}) {
      for (int64_t offset = 0; offset < 40; ++offset) {
        for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{2, 4}, {3, 2}, {1, 5}}) {
          const View a(buffer.data(), DataType::kF32, {3, 2}, {step, stride, 0, 0}, Device{});
          const View b(buffer.data() + offset, DataType::kF32, {rows, columns},
                       {step, stride, 0, 0}, Device{});
          const auto mine = elements(0, 3, 2, step, stride),
                     theirs = elements(offset, rows, columns, step, stride);
          const bool shared = std::any_of(mine.begin(), mine.end(),
                                          [&](int64_t at) { return theirs.contains(at); });
          if (shared) {
            EXPECT_TRUE(Overlap(a, b)) << step << " " << stride << " " << offset;
          }
          seen += shared ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(Overlap, AsksForRangesWhereLayoutsDiffer) {
  std::vector<float> buffer(100);
  const View all(buffer.data(), {10, 10}),
      transposed(buffer.data() + 40, DataType::kF32, {4, 4}, {1, 10, 0, 0}, Device{});
  EXPECT_TRUE(Overlap(all, transposed));
  std::vector<float> other(100);
  EXPECT_FALSE(Overlap(all, View(other.data(), {10, 10})));
  EXPECT_FALSE(Overlap(all, View()));
}

TEST(Overlap, SeesViewsThatOverlapThemselves) {
  std::vector<float> buffer(100);
  EXPECT_FALSE(OverlapsItself(View(buffer.data(), {10, 10})));
  EXPECT_FALSE(
      OverlapsItself(View(buffer.data(), DataType::kF32, {4, 5}, {20, 2, 0, 0}, Device{})));
  EXPECT_TRUE(OverlapsItself(View(buffer.data(), DataType::kF32, {4, 5}, {0, 1, 0, 0}, Device{})));
  EXPECT_TRUE(OverlapsItself(View(buffer.data(), DataType::kF32, {4, 5}, {4, 1, 0, 0}, Device{})));
}

}  // namespace
}  // namespace favor
