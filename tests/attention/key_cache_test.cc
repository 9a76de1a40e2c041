// Keys and values that decoders keep.
#include "attention/key_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kDim = 4, kLength = 60;

attention::CacheShape ShapeOf(DataType type) {
  return {.batch = kBatch, .heads = kHeads, .kv_heads = kHeads, .dim = kDim, .type = type};
}

class KeptRows : public testing::TestWithParam<DataType> {
 protected:
  // Expects the rows first … end − 1 of all.
  void Expect(const attention::KeptTokens& kept, int64_t first, int64_t end) const {
    ASSERT_EQ(kept.tokens(), end - first);
    EXPECT_EQ(kept.Bytes(), kBatch * kHeads * kDim * (end - first) * ItemBytes(type_));
    const ConstView heads = kept.AsHeads(), want = rows_.view().Range(2, first, end - first);
    ASSERT_EQ(heads.shape(), want.shape());
    Tensor a(heads.shape()), b(heads.shape());
    Copy(heads, a);
    Copy(want, b);
    EXPECT_EQ(LargestDifference(a, b), 0) << first << " to " << end;
  }
  ConstView Rows(int64_t first, int64_t count) const { return rows_.view().Range(2, first, count); }

  const DataType type_ = GetParam();
  const Tensor rows_ = RandomTensor({kBatch, kHeads, kLength, kDim}, 1, 1).To(type_);
  const Context context_{{.threads = 1}};
};

TEST_P(KeptRows, GrowAndAreCloned) {
  attention::KeptTokens kept(ShapeOf(type_), kDim);
  Expect(kept, 0, 0);
  int64_t end = 0;
  for (const int64_t count : {1, 1, 1, 7, 1, 20, 2, 1, 1}) {
    attention::KeptTokens copy = kept.Fork(1);
    kept.Append(Rows(end, count), context_);
    Expect(copy, 0, end);
    copy.Append(Rows(end, count), context_);
    end += count;
    Expect(kept, 0, end);
    Expect(copy, 0, end);
  }
}

// Memory of rows that were dropped is used again: what is kept moves to its beginning.
TEST_P(KeptRows, DropTheFirst) {
  for (const int64_t window : {0, 1, 5}) {
    for (const int64_t piece : {1, 3}) {
      attention::KeptTokens kept(ShapeOf(type_), kDim);
      for (int64_t end = piece; end <= kLength; end += piece) {
        kept.Append(Rows(end - piece, piece), context_);
        Expect(kept, std::max<int64_t>(0, end - piece - window), end);
        kept.DropAllBut(window);
        Expect(kept, std::max<int64_t>(0, end - window), end);
      }
    }
  }
}

TEST_P(KeptRows, GoThroughFiles) {
  attention::KeptTokens kept(ShapeOf(type_), kDim), loaded(ShapeOf(type_), kDim);
  kept.Append(Rows(0, 30), context_);
  kept.DropAllBut(20);
  io::Safetensors file;
  kept.Store("keys", file);
  EXPECT_EQ(file.Entry("keys", "test").dtype, "F32");
  loaded.Append(Rows(0, 50), context_);  // replaced
  loaded.Load("keys", file, 20, "test");
  Expect(loaded, 10, 30);
  loaded.Append(Rows(30, 5), context_);
  Expect(loaded, 10, 35);
  EXPECT_THROW(loaded.Load("keys", file, 19, "test"), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, KeptRows, testing::Values(DataType::kF32, DataType::kBF16),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace favor
