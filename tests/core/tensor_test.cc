#include "favor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "core/simd.h"
#include "favor/error.h"

namespace favor {
namespace {

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape().Elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).Elements(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).Elements(), 0);
  EXPECT_EQ((Shape{8, 1024, 64}).ToString(), "[8, 1024, 64]");
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
}

TEST(Shape, RefusesNegativeHugeAndTooManySizes) {
  EXPECT_THROW((Shape{2, -1}), Error);
  EXPECT_THROW((Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), Error);
}

TEST(Tensor, IsAlignedAndZero) {
  Tensor tensor({3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.Data<float>()) % 64, 0u);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(tensor.Data<float>()[i], 0.0f);
}

TEST(Tensor, RefusesMoreThanTheMachineHas) {
  try {
    Tensor tensor({int64_t{1} << 50});
    FAIL() << "allocated a petabyte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
}

TEST(Tensor, TypedAccessChecksTheType) {
  Tensor tensor({2}, DataType::kF64);
  EXPECT_NO_THROW(tensor.Data<double>());
  EXPECT_THROW(tensor.Data<float>(), Error);
}

TEST(Tensor, CloneIsIndependent) {
  Tensor a({2});
  a.Data<float>()[0] = 1;
  Tensor b = a.Clone();
  b.Data<float>()[0] = 2;
  EXPECT_EQ(a.Data<float>()[0], 1);
}

TEST(View, IndexesSlicesAndPadsRank) {
  std::vector<float> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const View view(data.data(), {2, 3, 4});
  EXPECT_EQ(view.At(1).shape(), (Shape{3, 4}));
  EXPECT_EQ(*view.At(1).At(2).Data<float>(), 20);
  const View columns = view.Range(2, 1, 2);
  EXPECT_FALSE(columns.IsContiguous());
  EXPECT_EQ(*columns.At(1).At(1).Data<float>(), 17);
  EXPECT_EQ(view.AsRank4().shape(), (Shape{1, 2, 3, 4}));
  EXPECT_TRUE(view.AsRank4().IsContiguous());
  EXPECT_THROW(view.At(2), Error);
  EXPECT_THROW(view.At(-1), Error);
  EXPECT_THROW(view.Range(2, 3, 2), Error);
  EXPECT_THROW(view.Range(3, 0, 1), Error);
}

TEST(Copy, ConvertsBetweenTypesAndStrides) {
  std::vector<double> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i) + 0.25;
  const ConstView columns = ConstView(data.data(), {2, 3, 4}).Range(2, 1, 2);
  for (const DataType type : {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16}) {
    Tensor packed({2, 3, 2}, type);
    Copy(columns, packed);
    const Tensor back = packed.To(DataType::kF64);
    for (int64_t i = 0; i < 12; ++i) {
      const double want = static_cast<double>(i / 2 * 4 + 1 + i % 2) + 0.25;
      // bf16 keeps 8 significant bits.
      EXPECT_NEAR(back.Data<double>()[i], want, type == DataType::kBF16 ? want / 256 : 0)
          << Name(type);
    }
  }
  Tensor wrong({2, 3, 3});
  EXPECT_THROW(Copy(columns, wrong), Error);
}

TEST(AllFinite, FindsNanAndInfinityInAnyType) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const DataType type : {DataType::kF32, DataType::kF64, DataType::kF16, DataType::kBF16}) {
      Tensor values({5}, DataType::kF64);
      EXPECT_TRUE(AllFinite(values.To(type)));
      values.Data<double>()[4] = bad;
      EXPECT_FALSE(AllFinite(values.To(type))) << Name(type);
    }
  }
}

static_assert(!std::is_copy_constructible_v<Tensor> && !std::is_copy_assignable_v<Tensor>,
              "a copy that shares memory would surprise");

TEST(Tensor, IsEmptyWithoutAShapeAndAfterAMove) {
  Tensor none;
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(none.view().empty());
  EXPECT_EQ(none.Bytes(), 0);
  EXPECT_TRUE(none.Clone().empty());
  Tensor from({2, 3});
  from.Data<float>()[5] = 7;
  Tensor to = std::move(from);
  EXPECT_TRUE(from.empty());  // NOLINT: that is what is tested
  EXPECT_EQ(from.shape(), Shape());
  EXPECT_EQ(to.Data<float>()[5], 7);
  to = Tensor({1});
  EXPECT_EQ(to.shape(), Shape({1}));
}

TEST(Shape, TakesAnotherLastSize) {
  EXPECT_EQ(Shape({8, 1024, 64}).WithLast(3), Shape({8, 1024, 3}));
  EXPECT_EQ(Shape({5}).WithLast(0), Shape({0}));
  EXPECT_THROW(Shape().WithLast(1), Error);
  EXPECT_THROW(Shape({2}).WithLast(-1), Error);
}

constexpr int64_t kLarge = 1 << 20;  // floats in 4 MiB, from which on arrays are pages of their own

TEST(Tensor, IsZeroAndAlignedAtAnySize) {
  for (int round = 0; round < 3; ++round) {
    for (const int64_t count : {int64_t{1}, int64_t{1000}, kLarge - 17, kLarge - 1, kLarge,
                                kLarge + 1, kLarge + kLarge / 2, 2 * kLarge + 3}) {
      Tensor tensor({count});
      float* x = tensor.Data<float>();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(x) % 64, 0u) << count;
      EXPECT_TRUE(std::all_of(x, x + count, [](float y) { return y == 0; })) << count;
      std::fill_n(x, count, 1.0f);  // for the next round, if it gets this memory
      const Tensor moved = std::move(tensor);
      EXPECT_EQ(moved.Data<float>()[count - 1], 1) << count;
    }
  }
}

TEST(Tensor, GivesLargeArraysBack) {
  const auto pages = [] {
    std::ifstream file("/proc/self/statm");
    int64_t count = 0;
    file >> count;
    return count;
  };
  const auto allocate = [] {
    for (const int64_t count : {kLarge, kLarge + 1, kLarge + kLarge / 2, 2 * kLarge + 3}) {
      Tensor tensor({count});
      tensor.Data<float>()[count - 1] = 1;
    }
  };
  if (pages() > int64_t{1} << 30) GTEST_SKIP() << "a sanitizer keeps what is freed";
  allocate();
  const int64_t before = pages();
  for (int round = 0; round < 50; ++round) allocate();
  EXPECT_LE(pages(), before + 1024);  // 4 MiB: none of the 200 arrays is left
}

// Views of heads are not contiguous: their rows lie next to those of other heads.
TEST(LargestAbsolute, LooksAtTheViewAlone) {
  Tensor rows({5, 12});
  for (int64_t i = 0; i < 60; ++i) rows.Data<float>()[i] = static_cast<float>(i);
  const ConstView head = std::as_const(rows).view().Range(1, 4, 4);  // columns 4 … 7
  EXPECT_EQ(LargestAbsolute(head), 55);
  rows.Data<float>()[4 * 12 + 8] = INFINITY;  // after the last of its columns
  rows.Data<float>()[3] = NAN;                // before the first
  EXPECT_EQ(LargestAbsolute(head), 55);
  rows.Data<float>()[2 * 12 + 7] = -1e30f;
  EXPECT_EQ(LargestAbsolute(head), static_cast<double>(1e30f));
  rows.Data<float>()[4] = NAN;
  EXPECT_TRUE(std::isnan(LargestAbsolute(head)));
}

// Any number may be the largest, wherever vectors of floats begin and end.
TEST(LargestAbsolute, FindsEveryPlaceOnEverySimdTarget) {
  const auto names = SimdNames();
  for (const std::string& name : names) {
    UseSimd(name);
    for (int64_t count = 1; count <= 131; ++count) {
      Tensor numbers({count});
      float* x = numbers.Data<float>();
      for (int64_t i = 0; i < count; ++i) x[i] = i % 2 == 0 ? -1.5f : 1.25f;
      EXPECT_EQ(LargestAbsolute(numbers), 1.5) << name << " " << count;
      for (int64_t i = 0; i < count; ++i) {
        const float before = x[i];
        x[i] = -1e30f;
        EXPECT_EQ(LargestAbsolute(numbers), static_cast<double>(1e30f)) << name << " " << i;
        x[i] = -INFINITY;
        EXPECT_EQ(LargestAbsolute(numbers), INFINITY) << name << " " << i;
        x[i] = std::copysign(std::nanf(""), -1.0f);
        EXPECT_TRUE(std::isnan(LargestAbsolute(numbers))) << name << " " << i;
        x[i] = before;
      }
    }
    EXPECT_EQ(LargestAbsolute(Tensor({0})), 0);
  }
  UseSimd(names.front());
}

// Axes in another order fill their memory, too: all of it counts, and nothing beside it.
TEST(LargestAbsolute, TakesAxesInAnyOrder) {
  std::vector<float> numbers(3 * 4 * 5, 1.0f);
  const ConstView heads(numbers.data(), DataType::kF32, {4, 3, 5}, {5, 20, 1}, {});
  EXPECT_EQ(LargestAbsolute(heads), 1);
  numbers.back() = -7;
  EXPECT_EQ(LargestAbsolute(heads), 7);
  numbers.back() = 1;
  numbers[2 * 5 + 3] = std::nanf("");  // row 0 of head 2
  EXPECT_TRUE(std::isnan(LargestAbsolute(heads)));
  EXPECT_EQ(LargestAbsolute(heads.Range(0, 0, 2)), 1);  // heads 0 and 1 leave gaps
  EXPECT_EQ(LargestAbsolute(heads.Range(0, 3, 1)), 1);
  EXPECT_EQ(LargestAbsolute(heads.Range(1, 2, 1)), 1);  // row 2 of all heads has none
  const ConstView repeated(numbers.data(), DataType::kF32, {6, 5}, {0, 1}, {});
  EXPECT_EQ(LargestAbsolute(repeated), 1);
}

// Below and above the size from which memory comes in large pages.
TEST(Tensor, BeginsWithZerosWhateverItsSize) {
  for (const int64_t count : {1000, 1 << 20, (1 << 20) + 17, 3 * (1 << 20) + 1}) {
    for (int round = 0; round < 2; ++round) {  // memory that was used before, too
      Tensor tensor({count});
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.Data<float>()) % 64, 0u);
      EXPECT_EQ(LargestAbsolute(tensor), 0) << count;
      std::fill_n(tensor.Data<float>(), count, 5.0f);
    }
  }
}

TEST(Copy, TakesRowsBetweenOthers) {
  Tensor rows({3, 6}), to({3, 4});
  for (int64_t i = 0; i < 18; ++i) rows.Data<float>()[i] = static_cast<float>(i);
  Copy(std::as_const(rows).view().Range(1, 1, 2), to.view().Range(1, 2, 2));
  const std::vector<float> want = {0, 0, 1, 2, 0, 0, 7, 8, 0, 0, 13, 14};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(to.Data<float>()[i], want[i]) << i;
}

}  // namespace
}  // namespace favor
