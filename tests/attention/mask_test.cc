// Masked keys do not exist, whatever they hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/attention/head_by_head.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

TEST(Mask, MaskedKeysDoNotExist) {
  const int64_t length = 150, d = 32;
  for (const char* map : {"positive", "hyperbolic", "oprf", "relu", "exp"}) {
    for (const bool causal : {false, true}) {
      for (const bool center : {false, true}) {
        if (center && (causal || std::string(map) == "relu" || std::string(map) == "exp")) continue;
        const Tensor q = RandomTensor({length, d}, 1, 1), k = RandomTensor({length, d}, 1, 2),
                     v = RandomTensor({length, d}, 1, 3);
        Tensor mask({length});
        std::vector<int64_t> kept;
        for (int64_t i = 0; i < length; ++i) {
          const bool keep =
              i >= 3 && RandomStream(9, "mask").Uniform(static_cast<uint64_t>(i)) < 0.63;
          mask.Data<float>()[i] = keep ? 1 : 0;
          if (keep) kept.push_back(i);
        }
        // Masked keys are poison: any use of them shows.
        Tensor poisoned = k.Clone(), poisoned_v = v.Clone();
        for (int64_t i = 0; i < length; ++i) {
          if (mask.Data<float>()[i] != 0) continue;
          for (int64_t c = 0; c < d; ++c)
            poisoned.Data<float>()[i * d + c] = 3, poisoned_v.Data<float>()[i * d + c] = 1e6f;
        }
        AttentionOptions options{
            .causal = causal, .features = {.map = map, .features = 64}, .center_keys = center};
        if (std::string(map) == "oprf" && causal) options.features.oprf_a = {-0.05};
        const Context context({.seed = 2});
        options.key_mask = mask;
        const Tensor masked = Attend(q, poisoned, poisoned_v, options, context);
        options.key_mask = {};
        if (!causal) {
          const auto count = static_cast<int64_t>(kept.size());
          Tensor k2({count, d}), v2({count, d});
          for (int64_t i = 0; i < count; ++i) {
            std::memcpy(k2.Data<float>() + i * d,
                        k.Data<float>() + kept[static_cast<size_t>(i)] * d,
                        static_cast<size_t>(d) * 4);
            std::memcpy(v2.Data<float>() + i * d,
                        v.Data<float>() + kept[static_cast<size_t>(i)] * d,
                        static_cast<size_t>(d) * 4);
          }
          EXPECT_LE(LargestDifference(masked, Attend(q, k2, v2, options, context)), 1e-6) << map;
        } else {
          const auto count = static_cast<int64_t>(kept.size());
          Tensor q2({count, d}), k2({count, d}), v2({count, d});
          for (int64_t i = 0; i < count; ++i) {
            const int64_t from = kept[static_cast<size_t>(i)] * d;
            std::memcpy(q2.Data<float>() + i * d, q.Data<float>() + from,
                        static_cast<size_t>(d) * 4);
            std::memcpy(k2.Data<float>() + i * d, k.Data<float>() + from,
                        static_cast<size_t>(d) * 4);
            std::memcpy(v2.Data<float>() + i * d, v.Data<float>() + from,
                        static_cast<size_t>(d) * 4);
          }
          const Tensor removed = Attend(q2, k2, v2, options, context);
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t c = 0; c < d; ++c) {
              EXPECT_NEAR(masked.Data<float>()[kept[static_cast<size_t>(i)] * d + c],
                          removed.Data<float>()[i * d + c], 1e-6)
                  << map;
            }
          }
          for (int64_t i = 0; i < 3 * d; ++i)
            EXPECT_EQ(masked.Data<float>()[i], 0) << "rows before the first key";
        }
      }
    }
  }
}

// NaN, infinity or huge numbers in masked rows: padding is often uninitialised.
TEST(Mask, WhateverMaskedRowsHoldDoesNotMatter) {
  const Tensor q = RandomTensor({20, 8}, 1, 1), k = RandomTensor({20, 8}, 1, 2),
               v = RandomTensor({20, 4}, 1, 3);
  Tensor mask({20});
  for (int64_t i = 0; i < 20; ++i) mask.Data<float>()[i] = i % 4 == 2 ? 0 : 1;
  for (const float poison : {NAN, INFINITY, 3e38f}) {
    Tensor bad_k = k.Clone(), bad_v = v.Clone();
    for (int64_t i = 2; i < 20; i += 4) {
      std::fill_n(bad_k.Data<float>() + i * 8, 8, poison);
      std::fill_n(bad_v.Data<float>() + i * 4, 4, poison);
    }
    for (const char* attention : {"linear", "exact", "uniform"}) {
      for (const FeatureMapInfo& map : Maps()) {
        for (const bool causal : {false, true}) {
          for (const bool reference : {false, true}) {
            AttentionOptions options{.attention = attention,
                                     .causal = causal,
                                     .reference = reference,
                                     .features = {.map = std::string(map.name), .features = 12}};
            options.key_mask = mask;
            if (map.name == "oprf") options.features.oprf_a = {-0.1};
            EXPECT_EQ(LargestDifference(Attend(q, bad_k, bad_v, options, Context()),
                                        Attend(q, k, v, options, Context())),
                      0)
                << attention << " " << map.name;
          }
        }
      }
    }
  }
}

// Every key head has its own mask, which applies to the query heads that share it. Each query head
// is compared with a call that has no other heads.
TEST(Mask, OfEveryKeyHeadReachesTheQueryHeadsThatShareIt) {
  const Context context({.threads = 2});
  const HeadsShape shape{
      .batch = 2, .heads = 6, .kv_heads = 3, .length = 70, .dim = 7, .value_dim = 5};
  HeadArrays arrays = RandomArrays(shape, 0.7);
  arrays.mask = Tensor({shape.batch, shape.kv_heads, shape.length});
  const RandomStream stream(5, "masks of heads");
  for (int64_t i = 0; i < arrays.mask.shape().Elements(); ++i)
    arrays.mask.Data<float>()[i] = stream.Uniform(static_cast<uint64_t>(i)) < 0.5 ? 0.0f : 1.0f;
  for (const char* attention : {"linear", "exact", "uniform"}) {
    for (const bool causal : {false, true}) {
      for (const bool reference : {false, true}) {
        SCOPED_TRACE(std::string(attention) + (causal ? " causal" : "") +
                     (reference ? " reference" : ""));
        AttentionOptions options{.attention = attention, .causal = causal, .reference = reference};
        if (options.attention == "linear")
          options.plan = FeaturePlan::Draw({.features = 16}, shape.heads, shape.dim, 3);
        const HeadResults got = AllHeads(arrays, options, context);
        for (int64_t batch = 0; batch < shape.batch; ++batch)
          ExpectHeadByHead(arrays, got, options, context, batch);
      }
    }
  }
}

TEST(Mask, AllMaskedGivesZerosAndIsCounted) {
  const Tensor q = RandomTensor({2, 5, 8}, 1, 1), mask({5});
  for (const char* attention : {"linear", "exact", "uniform", "identity"}) {
    for (const bool causal : {false, true}) {
      for (const bool reference : {false, true}) {
        AttentionReport report;
        const Tensor out = Attend(
            q, q, q,
            {.attention = attention, .causal = causal, .key_mask = mask, .reference = reference},
            Context(), {.report = &report});
        EXPECT_EQ(report.empty_rows, 10) << attention;
        EXPECT_EQ(report.nonpositive_rows, 0);
        EXPECT_EQ(LargestDifference(out, Tensor({2, 5, 8})), 0) << attention;
      }
    }
  }
}

}  // namespace
}  // namespace favor
