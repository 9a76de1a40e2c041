#include "layers/attention_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "core/tally.h"
#include "tests/attention/oracle.h"
#include "tests/layers/uniform_shape.h"

namespace favor {
namespace {

// The last rows of all that came, however many came at a time, behind zeros; of every type.
TEST(Tail, KeepsTheLastRows) {
  const Context context({.threads = 1});
  constexpr int64_t kMost = 3, kColumns = 5;
  const std::vector<layers::NamedColumns> parts = {{".a", 2}, {".b", 3}};
  for (const DataType type : {DataType::kF32, DataType::kBF16}) {
    const Tensor rows = RandomTensor({20, kColumns}, 1, 1).To(type);
    const Tensor all = rows.To(DataType::kF64);
    // Expects the last rows of the first `read`.
    const auto expect = [&](const ConstView& got, int64_t read) {
      ASSERT_EQ(got.shape(), (Shape{1, kMost, kColumns}));
      Tensor numbers(got.shape(), DataType::kF64);
      Copy(got, numbers);
      for (int64_t i = 0; i < kMost * kColumns; ++i) {
        const int64_t from = (read - kMost) * kColumns + i;
        ASSERT_EQ(numbers.Data<double>()[i], from < 0 ? 0 : all.Data<double>()[from]);
      }
    };
    layers::Tail tail(kMost, parts, type);
    int64_t read = 0;
    for (const int64_t count : {1, 1, 4, 1, 2, 1, 1, 5}) {
      layers::Tail copy = tail.Fork(1);
      const void* place = tail.rows().data();
      for (layers::Tail* each : {&tail, &copy})
        each->Append(context, rows.view().Range(0, read, count));
      read += count;
      EXPECT_EQ(tail.rows().data(), place);
      expect(tail.rows(), read);
      expect(copy.rows(), read);
      EXPECT_EQ(tail.Bytes(), std::min(kMost, read) * kColumns * ItemBytes(type));
    }
    io::Safetensors file;
    tail.Store("tail", file);
    for (const auto& [name, columns] : parts) {
      const io::SafetensorsEntry& entry = file.Entry("tail" + name, "test");
      EXPECT_EQ(entry.dtype, "F32");
      EXPECT_EQ(entry.shape, (std::vector<int64_t>{kMost, columns}));
    }
    const std::vector<float> second = file.Entry("tail.b", "test").Values<float>("test");
    for (int64_t i = 0; i < kMost * 3; ++i) {
      const int64_t row = read - kMost + i / 3;
      EXPECT_EQ(second[static_cast<size_t>(i)], all.Data<double>()[row * kColumns + 2 + i % 3]);
    }
    layers::Tail loaded(kMost, parts, type);
    loaded.Load("tail", file, read, "test");
    expect(loaded.rows(), read);
    EXPECT_THROW(loaded.Load("tail", file, kMost - 1, "test"), Error);
  }
}

TEST(Tail, MayHoldNothing) {
  const Context context({.threads = 1});
  layers::Tail tail(0, {{".all", 4}});
  const Tensor rows = RandomTensor({2, 4}, 1, 1);
  for (int i = 0; i < 2; ++i) {
    tail.Append(context, rows);
    EXPECT_EQ(tail.rows().size(1), 0);
    EXPECT_EQ(tail.Bytes(), 0);
  }
}

// Decoding refuses what a call on the whole sequence refuses, and leaves the cache unchanged.
TEST(AttentionCache, RefusesNumbersOutOfRange) {
  const Context context({.threads = 1});
  AttentionOptions exact{.attention = "exact", .causal = true}, linear{.causal = true};
  linear.plan = FeaturePlan::Draw({.features = 8}, 2, 2, 1);
  const AttentionOptions uniform{.attention = "uniform", .causal = true};
  for (const AttentionOptions& options : {exact, linear, uniform}) {
    layers::AttentionCache cache(UniformShape(4, 2, 1, options));
    Tensor q = RandomTensor({3, 4}, 1, 1), k = RandomTensor({3, 2}, 1, 2),
           v = RandomTensor({3, 2}, 1, 3), out({3, 4}), want({3, 4});
    const auto attend = [&](Tensor& to) {
      const Tally tally(context);
      cache.Attend(context, {.q = q, .k = k, .v = v}, tally.At(), to);
      return tally.Read()[0].unusable;
    };
    EXPECT_EQ(attend(out), 0);
    const int64_t bytes = cache.Bytes();
    layers::AttentionCache before = cache.Fork(1);
    for (Tensor* bad : {&q, &k, &v}) {
      if (bad != &v && options.attention == "uniform") continue;  // it reads only values
      for (const float value : {NAN, 1e35f}) {
        const float good = std::exchange(bad->Data<float>()[3], value);
        EXPECT_GT(attend(out), 0) << options.attention << " accepted " << value;
        EXPECT_EQ(cache.Bytes(), bytes);
        bad->Data<float>()[3] = good;
      }
    }
    // After the refusals, the result is the same as without them.
    EXPECT_EQ(attend(out), 0);
    const Tally tally(context);
    before.Attend(context, {.q = q, .k = k, .v = v}, tally.At(), want);
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(out.Data<float>()[i], want.Data<float>()[i]);
  }
}

// Token by token, with groups of different kinds and sizes: each gives what a call on its own
// columns gives.
TEST(AttentionCache, HoldsGroupsOfHeads) {
  const Context context({.threads = 1});
  AttentionOptions exact{.attention = "exact", .causal = true}, taylor{.causal = true};
  taylor.features = {.map = "taylor"};
  taylor.plan = FeaturePlan::Draw(taylor.features, 2, 2, 1);
  layers::AttentionShape shape{.width = 8};
  shape.Add({.heads = 1, .kv_heads = 1, .dim = 3, .value_dim = 2, .options = exact});
  shape.Add({.heads = 2, .kv_heads = 1, .dim = 2, .value_dim = 3, .options = taylor});
  constexpr int64_t kTokens = 7;
  Tensor q = RandomTensor({kTokens, 7}, 0.3, 1), k = RandomTensor({kTokens, 5}, 0.3, 2),
         v = RandomTensor({kTokens, 5}, 1, 3), out({kTokens, 8});
  layers::AttentionCache cache(shape);
  for (int64_t token = 0; token < kTokens; ++token) {
    const Tally tally(context);
    const auto row = [token](Tensor& rows) { return rows.view().Range(0, token, 1); };
    cache.Attend(context, {.q = row(q), .k = row(k), .v = row(v)}, tally.At(), row(out));
    EXPECT_EQ(tally.Read()[0].unusable, 0);
  }
  const auto heads = [](Tensor& rows, int64_t first, int64_t count, int64_t dim) {
    Tensor copy({count, kTokens, dim});
    for (int64_t h = 0; h < count; ++h) {
      for (int64_t i = 0; i < kTokens * dim; ++i) {
        copy.Data<float>()[h * kTokens * dim + i] =
            rows.Data<float>()[i / dim * rows.shape()[1] + first + h * dim + i % dim];
      }
    }
    return copy;
  };
  const Tensor want_exact =
      Attend(heads(q, 0, 1, 3), heads(k, 0, 1, 3), heads(v, 0, 1, 2), exact, context);
  const Tensor want_taylor =
      Attend(heads(q, 3, 2, 2), heads(k, 3, 1, 2), heads(v, 2, 1, 3), taylor, context);
  EXPECT_LT(LargestDifference(heads(out, 0, 1, 2), want_exact), 1e-6);
  EXPECT_LT(LargestDifference(heads(out, 2, 2, 3), want_taylor), 1e-5);

  // Files keep the groups apart.
  io::Safetensors file;
  cache.Store("layers.0", file);
  EXPECT_TRUE(file.entries.contains("layers.0.0.keys"));
  EXPECT_TRUE(file.entries.contains("layers.0.1.state.s"));
  layers::AttentionCache loaded(shape);
  loaded.Load("layers.0", file, kTokens, "test");
  Tensor after({1, 8}), again({1, 8});
  const Tally tally(context);
  const auto first = [](Tensor& rows) { return rows.view().Range(0, 0, 1); };
  cache.Attend(context, {.q = first(q), .k = first(k), .v = first(v)}, tally.At(), after);
  loaded.Attend(context, {.q = first(q), .k = first(k), .v = first(v)}, tally.At(), again);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(after.Data<float>()[i], again.Data<float>()[i]);
}

}  // namespace
}  // namespace favor
