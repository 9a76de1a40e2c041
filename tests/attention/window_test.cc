// Softmax attention in a sliding window against its definition, by hand and by finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "attention/kind.h"
#include "core/simd.h"
#include "core/tally.h"
#include "favor/error.h"
#include "kernels/attention_checks.h"
#include "kernels/exact_attention.h"
#include "layers/attention_cache.h"
#include "tests/attention/gradient_case.h"
#include "tests/attention/head_by_head.h"
#include "tests/layers/uniform_shape.h"

namespace favor {
namespace {

AttentionOptions Window(int64_t window, bool causal) {
  AttentionOptions options{.attention = "exact-window", .causal = causal};
  options.kind_options = {{"window", window}};
  return options;
}

// softmax over |i − j| ≤ window by definition; q [H, L, d], k, v [G, L, ..] with H/G heads sharing.
Tensor Definition(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window, bool causal,
                  const Tensor* mask) {
  const int64_t heads = q.shape()[0], shared = heads / k.shape()[0], length = q.shape()[1],
                d = q.shape()[2], dv = v.shape()[2];
  Tensor out({heads, length, dv}, DataType::kF64);
  for (int64_t h = 0; h < heads; ++h) {
    const float* keys = k.Data<float>() + h / shared * length * d;
    const float* values = v.Data<float>() + h / shared * length * dv;
    for (int64_t i = 0; i < length; ++i) {
      const float* query = q.Data<float>() + (h * length + i) * d;
      double* row = out.Data<double>() + (h * length + i) * dv;
      double sum = 0;
      for (int64_t j = 0; j < length; ++j) {
        if (j < i - window || j > i + window || (causal && j > i)) continue;
        if (mask != nullptr && mask->Data<float>()[j] == 0) continue;
        double dot = 0;
        for (int64_t c = 0; c < d; ++c) dot += static_cast<double>(query[c]) * keys[j * d + c];
        const double weight = std::exp(dot / std::sqrt(static_cast<double>(d)));
        sum += weight;
        for (int64_t c = 0; c < dv; ++c) row[c] += weight * values[j * dv + c];
      }
      for (int64_t c = 0; c < dv && sum > 0; ++c) row[c] /= sum;
    }
  }
  return out;
}

// Windows within a block of rows, of several blocks, and beyond the sequence; lengths on both sides
// of a block's end; heads that share keys; values of another dim; masks that leave rows empty.
TEST(Window, EqualsItsDefinition) {
  for (const int64_t length : {1, 7, 64, 65, 300}) {
    for (const int64_t window : {0, 1, 5, 63, 64, 130, 1000}) {
      for (const bool causal : {false, true}) {
        for (const bool masked : {false, true}) {
          const Tensor q = RandomTensor({4, length, 6}, 1.5, 1),
                       k = RandomTensor({2, length, 6}, 1.5, 2),
                       v = RandomTensor({2, length, 3}, 1, 3);
          Tensor mask({length});
          int64_t empty = 0;
          for (int64_t i = 0; i < length; ++i) mask.Data<float>()[i] = i % 5 == 2 ? 1 : 0;
          for (int64_t i = 0; i < length; ++i) {
            const int64_t last = causal ? i : std::min(length - 1, i + window);
            bool any = false;
            for (int64_t j = std::max<int64_t>(0, i - window); j <= last; ++j)
              any = any || mask.Data<float>()[j] == 1;
            empty += masked && !any ? 4 : 0;
          }
          AttentionOptions options = Window(window, causal);
          if (masked) options.key_mask = mask;
          const Tensor want = Definition(q, k, v, window, causal, masked ? &mask : nullptr);
          for (const bool reference : {false, true}) {
            options.reference = reference;
            AttentionReport report;
            const Tensor out = Attend(q, k, v, options, Context(), {.report = &report});
            EXPECT_LE(LargestDifference(out, want), reference ? 1e-13 : 3e-6)
                << length << " window " << window << " causal " << causal << " masked " << masked;
            EXPECT_EQ(report.empty_rows, empty) << length << " window " << window;
          }
        }
      }
    }
  }
}

// Enough rows for tasks of several blocks, whose last one is not whole.
TEST(Window, OfManyRowsEqualsItsDefinition) {
  for (const int64_t window : {3, 70}) {
    for (const bool causal : {false, true}) {
      const int64_t length = 1100;
      const Tensor q = RandomTensor({120, length, 5}, 1, 1),
                   k = RandomTensor({60, length, 5}, 1, 2), v = RandomTensor({60, length, 2}, 1, 3);
      const Tensor want = Definition(q, k, v, window, causal, nullptr);
      for (const std::string& simd : SimdNames()) {
        UseSimd(simd);
        EXPECT_LE(LargestDifference(Attend(q, k, v, Window(window, causal), Context()), want), 3e-6)
            << window << " causal " << causal << " " << simd;
      }
      UseSimd(SimdNames().front());
    }
  }
}

TEST(Window, GradientsAreThoseOfDifferences) {
  for (const int64_t window : {0, 40}) {
    for (const bool causal : {false, true}) {
      ExpectCentralDifferences({.attention = "exact-window",
                                .causal = causal,
                                .masked = true,
                                .grouped = true,
                                .window = window});
    }
  }
}

// Rows on both sides of every block; each SIMD target.
TEST(Window, FloatGradientsAreThoseOfTheReference) {
  for (const int64_t window : {1, 3, 70, 500}) {
    for (const bool causal : {false, true}) {
      for (const bool masked : {false, true}) {
        Call call({.attention = "exact-window",
                   .causal = causal,
                   .masked = masked,
                   .grouped = true,
                   .window = window,
                   .length = 203});
        ExpectReferenceOnEverySimdTarget(call, 1e-5);
      }
    }
  }
}

// Three blocks of rows: parts of the middle one meet parts of both others. Values of another dim
// than keys, and more of them than vectors hold.
TEST(Window, FloatGradientsOfNeighbouringBlocks) {
  for (const int64_t window : {20, 64, 100}) {
    for (const bool causal : {false, true}) {
      Call call({.attention = "exact-window",
                 .causal = causal,
                 .masked = window == 64,
                 .window = window,
                 .length = 560,
                 .dim = 7,
                 .value_dim = 19});
      ExpectReferenceOnEverySimdTarget(call, 1e-5);
    }
  }
}

// A window that reaches everything is exact attention, to the last bit.
// So many blocks that tasks take runs of them; a head alone has too few for that. Windows within a
// block, and over as many neighbours as a run allows.
TEST(Window, GradientsOfRunsOfBlocksAreThoseOfEveryHeadAlone) {
  const HeadsShape shape{
      .batch = 8, .heads = 16, .kv_heads = 8, .length = 2200, .dim = 4, .value_dim = 3};
  HeadArrays arrays = RandomArrays(shape, 1);
  for (const int64_t window : {64, 300, 1000}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::to_string(window) + (causal ? ", causal" : ""));
      arrays.mask = causal ? Tensor() : Tensor({shape.batch, shape.kv_heads, shape.length});
      for (int64_t i = 0; i < arrays.mask.shape().Elements() && !arrays.mask.empty(); ++i)
        arrays.mask.Data<float>()[i] = i % 3 == 1 ? 0 : 1;
      const Context context({.threads = 2});
      const HeadResults got = AllHeads(arrays, Window(window, causal), context);
      ExpectHeadByHead(arrays, got, Window(window, causal), context, shape.batch - 1);
    }
  }
}

// The kernel looks at its inputs itself, task by task.
TEST(Window, RefusesNumbersOutOfRangeInAnyRow) {
  const int64_t length = 1100;
  for (int array = 0; array < 3; ++array) {
    for (const int64_t row : {0, 63, 64, 700, 1099}) {
      for (const int64_t head : {0, 1}) {
        for (const float bad : {std::nanf(""), INFINITY, -2e30f}) {
          Tensor q = RandomTensor({4, length, 5}, 1, 1), k = RandomTensor({2, length, 5}, 1, 2),
                 v = RandomTensor({2, length, 3}, 1, 3);
          Tensor& changed = array == 0 ? q : array == 1 ? k : v;
          const int64_t columns = changed.shape()[2];
          changed.Data<float>()[(head * length + row) * columns + columns - 1] = bad;
          AttentionOptions options = Window(7, false);
          EXPECT_THROW(Attend(q, k, v, options, Context()), Error) << array << " row " << row;
          if (array == 0) continue;
          // A key that does not exist may hold anything.
          Tensor mask({length});
          for (int64_t i = 0; i < length; ++i) mask.Data<float>()[i] = i == row ? 0 : 1;
          options.key_mask = mask;
          EXPECT_TRUE(AllFinite(Attend(q, k, v, options, Context()))) << array << " row " << row;
        }
      }
    }
  }
}

TEST(Window, BeyondTheSequenceIsExactAttention) {
  const Tensor q = RandomTensor({2, 150, 8}, 1, 1), k = RandomTensor({2, 150, 8}, 1, 2),
               v = RandomTensor({2, 150, 8}, 1, 3);
  for (const bool causal : {false, true}) {
    const AttentionOptions exact{.attention = "exact", .causal = causal};
    EXPECT_EQ(LargestDifference(Attend(q, k, v, Window(149, causal), Context()),
                                Attend(q, k, v, exact, Context())),
              0);
  }
}

// Decoding in pieces of any size equals the call on the whole; memory is bounded by the window.
TEST(Window, DecodingKeepsTheLastTokens) {
  constexpr int64_t kTokens = 90, kDim = 4;
  const Context context({.threads = 1});
  for (const int64_t window : {0, 1, 6, 200}) {
    for (const int64_t piece : {1, 4, 33}) {
      const AttentionOptions options = Window(window, true);
      Tensor q = RandomTensor({kTokens, 2 * kDim}, 1, 1), k = RandomTensor({kTokens, kDim}, 1, 2),
             v = RandomTensor({kTokens, kDim}, 1, 3), out({kTokens, 2 * kDim});
      layers::AttentionCache cache(UniformShape(2 * kDim, 2, 1, options));
      for (int64_t at = 0; at < kTokens; at += piece) {
        const Tally tally(context);
        const auto rows = [&](Tensor& all) {
          return all.view().Range(0, at, std::min(piece, kTokens - at));
        };
        cache.Attend(context, {.q = rows(q), .k = rows(k), .v = rows(v)}, tally.At(), rows(out));
        EXPECT_EQ(tally.Read()[0].unusable, 0);
        const int64_t kept = std::min({window, at + piece, kTokens});
        EXPECT_EQ(cache.Bytes(), kept * 2 * kDim * 4) << window << " after " << at;
      }
      for (int64_t head = 0; head < 2; ++head) {
        Tensor one({1, kTokens, kDim}), keys({1, kTokens, kDim}), values({1, kTokens, kDim});
        for (int64_t i = 0; i < kTokens * kDim; ++i) {
          one.Data<float>()[i] = q.Data<float>()[i / kDim * 2 * kDim + head * kDim + i % kDim];
          keys.Data<float>()[i] = k.Data<float>()[i];
          values.Data<float>()[i] = v.Data<float>()[i];
        }
        const Tensor want = Definition(one, keys, values, window, true, nullptr);
        for (int64_t i = 0; i < kTokens * kDim; ++i) {
          ASSERT_NEAR(out.Data<float>()[i / kDim * 2 * kDim + head * kDim + i % kDim],
                      want.Data<double>()[i], 3e-6)
              << window << " in pieces of " << piece << " at " << i;
        }
      }
    }
  }
}

// Queries that follow 700 keys and see the last few, not all those of the first block of keys that
// they meet: gradients of keys that no query sees are 0, whatever was in their memory; those of the
// others are those of a call on these alone.
TEST(Window, KeysThatNobodySeesHaveNoGradient) {
  constexpr int64_t kBefore = 700, kQueries = 230, kWindow = 9, kKeys = kBefore + kQueries,
                    kDim = 4;
  constexpr int64_t kFirst = kBefore - kWindow, kSeen = kKeys - kFirst;  // keys in reach
  const Context context({.threads = 2});
  const Tensor q = RandomTensor({1, 2, kQueries, kDim}, 1, 1),
               k = RandomTensor({1, 1, kKeys, kDim}, 1, 2),
               v = RandomTensor({1, 1, kKeys, kDim}, 1, 3),
               grad_out = RandomTensor({1, 2, kQueries, kDim}, 1, 4);
  for (const DataType type : {DataType::kF32, DataType::kF64}) {
    const auto gradients = [&](int64_t first) {
      const kernels::AttentionProblem problem{.q = q,
                                              .k = k.view().Range(2, first, kKeys - first),
                                              .v = v.view().Range(2, first, kKeys - first),
                                              .batch = 1,
                                              .heads = 2,
                                              .kv_heads = 1,
                                              .query_length = kQueries,
                                              .key_length = kKeys - first,
                                              .dim = kDim,
                                              .value_dim = kDim,
                                              .causal = true,
                                              .before = kBefore - first,
                                              .window = kWindow,
                                              .scale = 0.5};
      Tensor out(q.shape(), type), log_sum({2, kQueries}, DataType::kF64),
          delta({2, kQueries}, DataType::kF64);
      AttentionGradients result{Tensor(q.shape(), type),
                                Tensor({1, 1, kKeys - first, kDim}, type),
                                Tensor({1, 1, kKeys - first, kDim}, type),
                                {}};
      for (Tensor* garbage : {&result.q, &result.k, &result.v})
        std::memset(garbage->view().data(), 0x40, static_cast<size_t>(garbage->Bytes()));
      const Tally tally(context);
      kernels::ExactAttention(
          {.problem = problem, .out = out, .log_sum = log_sum, .tally = tally.At()}, context);
      kernels::FindDeltas({.problem = problem,
                           .out = out,
                           .grad_out = grad_out,
                           .delta = delta,
                           .tally = tally.At()},
                          context);
      kernels::ExactAttentionBackward({.problem = problem,
                                       .out = out,
                                       .grad_out = grad_out,
                                       .log_sum = log_sum,
                                       .delta = delta,
                                       .grad_q = result.q,
                                       .grad_k = result.k,
                                       .grad_v = result.v,
                                       .tally = tally.At()},
                                      context);
      EXPECT_EQ(tally.Read()[0].unusable, 0);
      return result;
    };
    const AttentionGradients all = gradients(0), seen = gradients(kFirst);
    EXPECT_LE(LargestDifference(all.q, seen.q), 1e-6);
    for (const auto& [whole, part] : {std::pair{&all.k, &seen.k}, {&all.v, &seen.v}}) {
      EXPECT_EQ(LargestAbsolute(whole->view().Range(2, 0, kFirst)), 0);
      Tensor tail({1, 1, kSeen, kDim});
      Copy(whole->view().Range(2, kFirst, kSeen), tail);
      EXPECT_LE(LargestDifference(tail, *part), 1e-6);
      EXPECT_GT(LargestAbsolute(tail), 0.01);
    }
  }
}

TEST(Window, RefusesWhatItCannotMean) {
  const Tensor q = RandomTensor({5, 4}, 1, 1), k = RandomTensor({6, 4}, 1, 2);
  EXPECT_THROW(Attend(q, k, k, Window(2, false), Context()), Error);
  EXPECT_THROW(Attend(q, q, q, Window(-1, false), Context()), Error);
  AttentionOptions options = Window(2, false);
  options.attention = "exact";
  EXPECT_THROW(Attend(q, q, q, options, Context()), Error);
  options.attention = "exact-window";
  options.kind_options = {{"windows", 2}};
  EXPECT_THROW(Attend(q, q, q, options, Context()), Error);
}

// Another window is another call: its trace is refused.
TEST(Window, TracesKnowTheWindow) {
  const Tensor q = RandomTensor({5, 4}, 1, 1);
  AttentionTrace trace;
  const Tensor out = Attend(q, q, q, Window(2, false), Context(), {.trace = &trace});
  EXPECT_NO_THROW(AttendBackward({q, q, q, out, q}, Window(2, false), Context(), &trace));
  EXPECT_THROW(AttendBackward({q, q, q, out, q}, Window(3, false), Context(), &trace), Error);
}

// Products by hand: 2·(d + dv) per pair forward, 2·(4d + 3dv) with gradients.
TEST(Window, CountsThePairsThatItSees) {
  const attention::CacheShape shape{
      .batch = 2, .heads = 3, .kv_heads = 3, .dim = 5, .value_dim = 4};
  const attention::Kind& kind = attention::FindKind("exact-window");
  // Length 6, window 2, causal: rows see 1, 2, 3, 3, 3, 3 keys; both ways 3, 4, 5, 5, 4, 3.
  EXPECT_EQ(kind.Flops(shape, 6, Window(2, true), false), 6 * 15.0 * 2 * 9);
  EXPECT_EQ(kind.Flops(shape, 6, Window(2, false), false), 6 * 24.0 * 2 * 9);
  EXPECT_EQ(kind.Flops(shape, 6, Window(50, false), true), 6 * 36.0 * 2 * (4 * 5 + 3 * 4));
}

}  // namespace
}  // namespace favor
