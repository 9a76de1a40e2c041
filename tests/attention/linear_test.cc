// Linear attention: exact in its arithmetic, causal, blind to masked keys, the same however it is
// cut.
#include <gtest/gtest.h>

#include <cstring>

#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

struct ExactnessCase {
  int64_t length, dim, features;
  double deviation, tolerance;
};

class LinearExactness : public testing::TestWithParam<ExactnessCase> {};

// Float output equals FAVOR+ in long double with the same ω.
TEST_P(LinearExactness, EqualsLongDouble) {
  const auto& [length, dim, features, deviation, tolerance] = GetParam();
  const Tensor q = RandomTensor({length, dim}, deviation, 1),
               k = RandomTensor({length, dim}, deviation, 2), v = RandomTensor({length, 16}, 1, 3);
  const Context context({.seed = 7});
  const auto plan = FeaturePlan::Draw({.features = features}, 1, dim, 7);
  for (const bool causal : {false, true}) {
    const Tensor out = Attend(q, k, v, {.causal = causal, .plan = plan}, context);
    const double error = LargestDifference(out, LongDoubleFavor(q, k, v, plan.Omega(), causal));
    EXPECT_LE(error, tolerance) << (causal ? "causal" : "bidirectional");
    RecordProperty(causal ? "causal" : "bidirectional", std::to_string(error));
    const Tensor reference =
        Attend(q, k, v, {.causal = causal, .reference = true, .plan = plan}, context);
    EXPECT_LE(LargestDifference(reference, LongDoubleFavor(q, k, v, plan.Omega(), causal)), 1e-9);
  }
}

std::vector<ExactnessCase> ExactnessCases() {
  std::vector<ExactnessCase> cases;
  for (const double deviation : {0.5, 1.0, 2.0, 4.0, 8.0}) {
    for (const int64_t dim : {64, 16, 40}) {
      for (const int64_t features : {256, 17, 300})
        cases.push_back({200, dim, features, deviation, 1e-4});
    }
    cases.push_back({100, 64, 1024, deviation, 1e-4});
    cases.push_back({2048, 64, 256, deviation, 1e-4});
  }
  cases.push_back({300, 128, 256, 8, 2.5e-4});
  cases.push_back({300, 64, 256, 30, 1e-3});
  cases.push_back({300, 128, 256, 30, 1e-3});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Linear, LinearExactness, testing::ValuesIn(ExactnessCases()),
                         [](const auto& test) {
                           const auto& c = test.param;
                           return std::string("L")
                               .append(std::to_string(c.length))
                               .append("_d")
                               .append(std::to_string(c.dim))
                               .append("_m")
                               .append(std::to_string(c.features))
                               .append("_sd")
                               .append(std::to_string(static_cast<int>(10 * c.deviation)));
                         });

// Norms that grow, shrink and jump over the sequence, by a factor of 1000.
Tensor Profiled(const Tensor& base, const std::string& profile) {
  Tensor x = base.Clone();
  const int64_t length = x.shape()[0], d = x.shape()[1];
  for (int64_t i = 0; i < length; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(length - 1);
    const double factor = profile == "grow"     ? std::pow(1000, t - 1)
                          : profile == "shrink" ? std::pow(1000, -t)
                          : profile == "jump"   ? (i / 37 % 2 ? 1e-3 : 1.0)
                                                : 1;
    for (int64_t c = 0; c < d; ++c) x.Data<float>()[i * d + c] *= static_cast<float>(factor);
  }
  return x;
}

class LinearCuts : public testing::TestWithParam<std::tuple<std::string, std::string, double>> {};

// Chunks of any size agree with the reference, which goes token by token.
TEST_P(LinearCuts, ChunksAgree) {
  const auto& [map, profile, deviation] = GetParam();
  const int64_t length = 300, d = 32;
  const Tensor q = RandomTensor({length, d}, deviation, 1), v = RandomTensor({length, 8}, 1, 3);
  const Tensor k = Profiled(RandomTensor({length, d}, deviation, 2), profile);
  const Context context({.seed = 3});
  AttentionOptions options{.causal = true, .features = {.map = map, .features = 64}};
  if (map == "oprf") options.features.oprf_a = {-0.05};
  options.reference = true;
  const Tensor reference = Attend(q, k, v, options, context);
  options.reference = false;
  for (const int64_t chunk : {1, 16, 64, 100, 256}) {
    options.chunk = chunk;
    EXPECT_LE(LargestDifference(Attend(q, k, v, options, context), reference),
              deviation <= 1 ? 1e-5 : 1e-4)
        << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Linear, LinearCuts,
                         testing::Combine(testing::Values("positive", "hyperbolic", "oprf",
                                                          "regularized", "exp", "relu"),
                                          testing::Values("level", "grow", "shrink", "jump"),
                                          testing::Values(1.0, 8.0)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) +
                                  (std::get<2>(test.param) > 1 ? "_sd8" : "_sd1");
                         });

// Keys that dominate a feature, explode or vanish at the end of the sequence.
std::vector<Tensor> Intruders(const Tensor& k, const FeaturePlan& plan) {
  const int64_t length = k.shape()[0], d = k.shape()[1];
  const Tensor omega = plan.Omega();
  std::vector<Tensor> changed;
  for (const int kind : {0, 1, 2, 3}) {
    Tensor other = k.Clone();
    float* last = other.Data<float>() + (length - 1) * d;
    for (int64_t i = 0; i < d; ++i) {
      const double root = std::pow(static_cast<double>(d), 0.25);
      if (kind == 0) last[i] = static_cast<float>(root * omega.Data<float>()[i]);
      if (kind == 1) last[i] = static_cast<float>(root * omega.Data<float>()[5 * d + i]);
      if (kind == 2) last[i] *= 1000;
      if (kind == 3) last[i] = 0;
    }
    changed.push_back(std::move(other));
  }
  return changed;
}

double EarlierChange(const Tensor& a, const Tensor& b) {
  const int64_t length = a.shape()[0], d = a.shape()[1];
  double largest = 0;
  for (int64_t i = 0; i < (length - 1) * d; ++i)
    largest =
        std::max(largest, static_cast<double>(std::fabs(a.Data<float>()[i] - b.Data<float>()[i])));
  return largest;
}

TEST(Causal, MeansCausal) {
  for (const double deviation : {1.0, 4.0}) {
    for (const int64_t length : {64, 101, 500}) {
      const int64_t d = 64;
      const Tensor q = RandomTensor({length, d}, deviation, 1),
                   k = RandomTensor({length, d}, deviation, 2), v = RandomTensor({length, d}, 1, 3);
      const Context context({.seed = 1});
      const auto plan = FeaturePlan::Draw({.features = 256}, 1, d, 1);
      const AttentionOptions options{.causal = true, .plan = plan};
      const Tensor base = Attend(q, k, v, options, context);
      for (const Tensor& other : Intruders(k, plan)) {
        EXPECT_LE(EarlierChange(base, Attend(q, other, v, options, context)), 1e-5)
            << deviation << " " << length;
      }
    }
  }
}

// The same test sees the leak of a key maximum over all positions with an epsilon of 1e-6.
TEST(Causal, TestSeesTheLeakOfPublicFormulas) {
  const int64_t length = 101, d = 64;
  const Tensor q = RandomTensor({length, d}, 1, 1), k = RandomTensor({length, d}, 1, 2),
               v = RandomTensor({length, d}, 1, 3);
  const Context context({.seed = 1});
  const auto plan = FeaturePlan::Draw({.features = 256}, 1, d, 1);
  const AttentionOptions options{.causal = true, .plan = plan, .compat = Compat::kJax};
  const Tensor base = Attend(q, k, v, options, context);
  double largest = 0;
  for (const Tensor& other : Intruders(k, plan))
    largest = std::max(largest, EarlierChange(base, Attend(q, other, v, options, context)));
  EXPECT_GT(largest, 1e-3);
}

// A chunk in which later keys tower over earlier ones: first rows would divide zero by zero without
// the smaller chunk.
TEST(Causal, SurvivesExponentsThatRiseInsideAChunk) {
  const int64_t length = 64, d = 16;
  const auto plan = FeaturePlan::Draw({.features = 32}, 1, d, 1);
  const Tensor omega = plan.Omega();
  Tensor k({length, d});
  for (int64_t i = 0; i < length; ++i) {
    // Far away at first (exponents near −‖x‖²/2 = −2000), then nearer and nearer.
    const double radius = 120.0 * static_cast<double>(length - 1 - i) / static_cast<double>(length);
    for (int64_t c = 0; c < d; ++c)
      k.Data<float>()[i * d + c] = static_cast<float>(radius * (c == i % d ? 1 : 0));
  }
  const Tensor q = RandomTensor({length, d}, 1, 1), v = RandomTensor({length, 8}, 1, 3);
  for (const char* map : {"positive", "trigonometric"}) {
    const AttentionOptions options{.causal = true, .features = {.map = map, .features = 32}};
    AttentionOptions reference = options;
    reference.reference = true;
    AttentionReport report, reference_report;
    const Context context({.seed = 1});
    // Trigonometric exponents +‖x‖²/2 rise the other way round.
    Tensor keys = k.Clone();
    if (std::string(map) == "trigonometric") {
      for (int64_t i = 0; i < length; ++i) Copy(k.view().At(length - 1 - i), keys.view().At(i));
    }
    const Tensor out = Attend(q, keys, v, options, context, &report);
    const Tensor want = Attend(q, keys, v, reference, context, &reference_report);
    EXPECT_EQ(report.nonpositive_rows, reference_report.nonpositive_rows) << map;
    if (std::string(map) == "positive") {
      EXPECT_LE(LargestDifference(out, want), 2e-4) << map;
    }
  }
}

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
        // Masked keys are poison: any trace of them shows.
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
          EXPECT_LE(LargestDifference(masked, Attend(q, k2, v2, options, context)), 2e-6) << map;
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
                          removed.Data<float>()[i * d + c], 2e-6)
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

TEST(Mask, AllMaskedGivesZerosAndIsCounted) {
  const Tensor q = RandomTensor({2, 5, 8}, 1, 1), mask({5});
  for (const char* attention : {"linear", "exact", "uniform", "identity"}) {
    for (const bool causal : {false, true}) {
      for (const bool reference : {false, true}) {
        AttentionReport report;
        const Tensor out = Attend(
            q, q, q,
            {.attention = attention, .causal = causal, .key_mask = mask, .reference = reference},
            Context(), &report);
        EXPECT_EQ(report.empty_rows, 10) << attention;
        EXPECT_EQ(report.nonpositive_rows, 0);
        EXPECT_EQ(LargestDifference(out, Tensor({2, 5, 8})), 0) << attention;
      }
    }
  }
}

TEST(Linear, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const bool causal : {false, true}) {
    for (const Shape& shape : {Shape{9000, 8}, Shape{20, 70, 8}}) {
      const Tensor q = RandomTensor(shape, 1, 1), k = RandomTensor(shape, 1, 2),
                   v = RandomTensor(shape, 1, 3);
      const AttentionOptions options{.causal = causal, .features = {.features = 16}};
      const Tensor one = Attend(q, k, v, options, Context({.threads = 1}));
      for (const int threads : {2, 3, 8, 16}) {
        const Tensor many = Attend(q, k, v, options, Context({.threads = threads}));
        EXPECT_EQ(
            std::memcmp(one.Data<float>(), many.Data<float>(), static_cast<size_t>(one.Bytes())), 0)
            << threads;
      }
    }
  }
}

// A sequence cut into blocks (9000 rows: three) equals the reference, which is cut too, and a
// single pass over its parts.
TEST(Linear, LongSequencesAreCutWithoutATrace) {
  const Tensor q = RandomTensor({9000, 8}, 1, 1), k = RandomTensor({9000, 8}, 1, 2),
               v = RandomTensor({9000, 4}, 1, 3);
  const auto plan = FeaturePlan::Draw({.features = 16}, 1, 8, 3);
  for (const bool causal : {false, true}) {
    const Tensor out = Attend(q, k, v, {.causal = causal, .plan = plan}, Context());
    EXPECT_LE(LargestDifference(out, LongDoubleFavor(q, k, v, plan.Omega(), causal)), 1e-5);
  }
}

// A million equal keys: a float sum stops feeling the next one.
TEST(Linear, LongSumsDoNotDrift) {
  const int64_t length = 300000;
  Tensor k({length, 4}), v({length, 2});
  for (int64_t i = 0; i < length; ++i) {
    std::fill_n(k.Data<float>() + 4 * i, 4, 0.1f);
    v.Data<float>()[2 * i] = 1.0f / 3;
    v.Data<float>()[2 * i + 1] = i % 2 == 0 ? 1.0f : 0.0f;
  }
  const Tensor q = RandomTensor({3, 4}, 1, 1);
  const auto plan = FeaturePlan::Draw({.features = 8}, 1, 4, 1);
  AttentionState state(plan, {.value_dim = 2});
  state.Append(k, v, Context());
  for (const Tensor& out : {state.Attend(q, Context()), Attend(q, k, v, {.plan = plan}, Context()),
                            Attend(q, k, v, {.attention = "exact"}, Context())}) {
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(out.Data<float>()[2 * i], 1.0 / 3, 1e-6);
      EXPECT_NEAR(out.Data<float>()[2 * i + 1], 0.5, 1e-6);
    }
  }
}

TEST(Linear, SharesKeyHeadsAmongQueryHeads) {
  const Tensor q = RandomTensor({2, 6, 40, 16}, 0.5, 1), k = RandomTensor({2, 2, 50, 16}, 0.5, 2),
               v = RandomTensor({2, 2, 50, 5}, 1, 3);
  Tensor k6({2, 6, 50, 16}), v6({2, 6, 50, 5});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 6; ++h) {
      Copy(k.view().At(b).At(h / 3), k6.view().At(b).At(h));
      Copy(v.view().At(b).At(h / 3), v6.view().At(b).At(h));
    }
  }
  for (const char* attention : {"linear", "exact", "uniform"}) {
    const AttentionOptions options{.attention = attention, .features = {.features = 32}};
    const Tensor shared = Attend(q, k, v, options, Context()),
                 repeated = Attend(q, k6, v6, options, Context());
    EXPECT_EQ(shared.shape(), (Shape{2, 6, 40, 5}));
    EXPECT_EQ(LargestDifference(shared, repeated), 0) << attention;
  }
}

// Centring changes no softmax: the estimate keeps its target, normalised or not.
TEST(Linear, CenteringKeepsTheTarget) {
  const int64_t length = 40, d = 4;
  const Tensor q = RandomTensor({length, d}, 0.7, 1);
  Tensor k = RandomTensor({length, d}, 0.7, 2);
  for (int64_t i = 0; i < length * d; ++i) k.Data<float>()[i] += 1.0f;
  const Tensor v = RandomTensor({length, 3}, 1, 3);
  for (const bool renormalize : {true, false}) {
    const Tensor exact =
        Attend(q, k, v, {.attention = "exact", .renormalize = renormalize}, Context());
    const auto error = [&](bool center) {
      const Tensor out = Attend(
          q, k, v,
          {.renormalize = renormalize, .features = {.features = 20000}, .center_keys = center},
          Context({.seed = 5}));
      double sum = 0, size = 0;
      for (int64_t i = 0; i < length * 3; ++i) {
        sum += std::pow(out.Data<float>()[i] - exact.Data<float>()[i], 2);
        size += std::pow(exact.Data<float>()[i], 2);
      }
      return std::sqrt(sum / size);
    };
    EXPECT_LT(error(true), 0.15);
    EXPECT_LT(error(true), error(false));
  }
}

TEST(Linear, UnnormalizedIsTheSumOfKernels) {
  const Tensor q = RandomTensor({6, 8}, 1, 1), k = RandomTensor({9, 8}, 1, 2),
               v = RandomTensor({9, 3}, 1, 3);
  for (const FeatureMapInfo& map : Maps()) {
    const auto plan = FeaturePlan::Draw({.map = std::string(map.name), .features = 20}, 1, 8, 3);
    AttentionOptions options{.scale = 1, .renormalize = false, .plan = plan};
    if (map.name == "oprf")
      options.plan = FeaturePlan::Draw({.map = "oprf", .features = 20, .oprf_a = {-0.1}}, 1, 8, 3);
    const Tensor out = Attend(q, k, v, options, Context());
    const Tensor phi_q = Features(*options.plan, q, Context()),
                 phi_k = Features(*options.plan, k, Context());
    const int64_t width = plan.width();
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        double want = 0, size = 0;
        for (int64_t j = 0; j < 9; ++j) {
          double kernel = 0;
          for (int64_t r = 0; r < width; ++r)
            kernel += phi_q.Data<double>()[i * width + r] * phi_k.Data<double>()[j * width + r];
          want += kernel * v.Data<float>()[j * 3 + c];
          size += std::fabs(kernel * v.Data<float>()[j * 3 + c]);
        }
        EXPECT_NEAR(out.Data<float>()[i * 3 + c], want, 2e-5 * size + 1e-6) << map.name;
      }
    }
  }
}

// Signed maps: denominators ≤ 0 give rows of zeros and are counted; positive maps never have one.
TEST(Linear, CountsDenominatorsThatAreNotPositive) {
  const Tensor q = RandomTensor({200, 16}, 2, 1), k = RandomTensor({200, 16}, 2, 2),
               v = RandomTensor({200, 4}, 1, 3);
  for (const FeatureMapInfo& map : Maps()) {
    for (const bool causal : {false, true}) {
      AttentionReport report;
      AttentionOptions options{.causal = causal,
                               .features = {.map = std::string(map.name), .features = 32}};
      if (map.name == "oprf") options.features.oprf_a = {-0.1};
      const Tensor out = Attend(q, k, v, options, Context(), &report);
      int64_t zero_rows = 0;
      for (int64_t i = 0; i < 200; ++i) {
        bool zero = true;
        for (int64_t c = 0; c < 4; ++c) {
          ASSERT_TRUE(std::isfinite(out.Data<float>()[i * 4 + c])) << map.name;
          zero = zero && out.Data<float>()[i * 4 + c] == 0;
        }
        zero_rows += zero ? 1 : 0;
      }
      EXPECT_EQ(zero_rows, report.nonpositive_rows) << map.name;
      if (map.nonnegative) {
        EXPECT_EQ(report.nonpositive_rows, 0) << map.name;
      }
      if (map.name == "trigonometric") {
        EXPECT_GT(report.nonpositive_rows, 0);
      }
    }
  }
}

TEST(Matrix, RowsSumToOneAndTimesValuesIsTheOutput) {
  const Tensor q = RandomTensor({2, 90, 16}, 0.7, 1), k = RandomTensor({2, 90, 16}, 0.7, 2),
               v = RandomTensor({2, 90, 5}, 1, 3);
  for (const FeatureMapInfo& map : Maps()) {
    if (!map.nonnegative) continue;
    for (const char* attention : {"linear", "exact", "uniform", "identity"}) {
      for (const bool causal : {false, true}) {
        AttentionOptions options{.attention = attention,
                                 .causal = causal,
                                 .features = {.map = std::string(map.name), .features = 32}};
        if (map.name == "oprf") options.features.oprf_a = {-0.1};
        const Tensor matrix = AttentionMatrix(q, k, options, Context()),
                     out = Attend(q, k, v, options, Context());
        ASSERT_EQ(matrix.shape(), (Shape{2, 90, 90}));
        for (int64_t row = 0; row < 180; ++row) {
          const float* weights = matrix.Data<float>() + row * 90;
          double sum = 0, product[5] = {};
          for (int64_t j = 0; j < 90; ++j) {
            sum += weights[j];
            if (causal && j > row % 90) {
              EXPECT_EQ(weights[j], 0);
            }
            for (int64_t c = 0; c < 5; ++c)
              product[c] += weights[j] * v.Data<float>()[(row / 90 * 90 + j) * 5 + c];
          }
          ASSERT_NEAR(sum, 1, 1e-5) << map.name;
          for (int64_t c = 0; c < 5; ++c)
            ASSERT_NEAR(product[c], out.Data<float>()[row * 5 + c], 1e-5) << map.name;
        }
      }
    }
  }
}

struct BadCall {
  const char* name;
  std::function<void()> call;
  ErrorCode code;
  const char* says;
};

class RefusedCall : public testing::TestWithParam<BadCall> {};

TEST_P(RefusedCall, SaysWhy) {
  try {
    GetParam().call();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
  }
}

void Call(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& options = {}) {
  Attend(Tensor(q), Tensor(k), Tensor(v), options, Context());
}

constexpr ErrorCode kData = ErrorCode::kInvalidData, kOption = ErrorCode::kInvalidOption;
Tensor Filled(float value) {
  Tensor tensor({2, 2});
  std::fill_n(tensor.Data<float>(), 4, value);
  return tensor;
}

const Tensor kNan = [] {
  Tensor tensor({2, 2});
  tensor.Data<float>()[3] = NAN;
  return tensor;
}();
const Tensor kHuge = Filled(1e20f), kHugeValue = Filled(3e38f), kUnit = Filled(1),
             kLarge = Filled(30);
const Tensor kMean({7}), kMask({2, 3}), kOddMask = RandomTensor({5}, 1, 1);

INSTANTIATE_TEST_SUITE_P(
    Attend, RefusedCall,
    testing::Values(
        BadCall{"Rank", [] { Call({4}, {4}, {4}); }, kData, "expected [L, d]"},
        BadCall{"Ranks",
                [] {
                  Call({5, 4}, {1, 5, 4}, {5, 4});
                },
                kData, "same number of axes"},
        BadCall{"Empty",
                [] {
                  Call({0, 4}, {5, 4}, {5, 4});
                },
                kData, "at least one row"},
        BadCall{"Dim",
                [] {
                  Call({5, 4}, {5, 3}, {5, 4});
                },
                kData, "k of dim 4"},
        BadCall{"Lengths",
                [] {
                  Call({5, 4}, {5, 4}, {6, 4});
                },
                kData, "as many values as keys"},
        BadCall{"Batch",
                [] {
                  Call({2, 1, 5, 4}, {1, 1, 5, 4}, {1, 1, 5, 4});
                },
                kData, "same batch"},
        BadCall{"Heads",
                [] {
                  Call({3, 5, 4}, {2, 5, 4}, {2, 5, 4});
                },
                kData, "given 3 heads of q and 2 of k"},
        BadCall{"ValueHeads",
                [] {
                  Call({2, 5, 4}, {2, 5, 4}, {1, 5, 4});
                },
                kData, "heads of v"},
        BadCall{"CausalLengths",
                [] {
                  Call({5, 4}, {6, 4}, {6, 4}, {.causal = true});
                },
                kData, "same number in a causal call"},
        BadCall{"MaskShape",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.key_mask = kMask});
                },
                kData, "key mask: given shape [2, 3]"},
        BadCall{"MaskValues",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.key_mask = kOddMask});
                },
                kData, "expected 0 (no such key) or 1"},
        BadCall{"Name",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "linaer"});
                },
                kOption, "did you mean 'linear'?"},
        BadCall{"Scale",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.scale = -1});
                },
                kOption, "above 0"},
        BadCall{"ScaleNan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "exact", .scale = NAN});
                },
                kOption, "finite"},
        BadCall{"Chunk",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.chunk = 0});
                },
                kOption, "chunk: given 0"},
        BadCall{"CausalCentring",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.causal = true, .center_keys = true});
                },
                kOption, "frozen mean"},
        BadCall{"CausalOprf",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.causal = true, .features = {.map = "oprf"}});
                },
                kOption, "--oprf-a"},
        BadCall{"MeanShape",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.center_keys = true, .key_mean = kMean});
                },
                kData, "key mean: given shape [7]"},
        BadCall{"MeanWithoutCentring",
                [] {
                  Call({5, 7}, {5, 7}, {5, 4}, {.key_mean = kMean});
                },
                kOption, "not to be centred"},
        BadCall{"CentringOfOtherKernels",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.features = {.map = "relu"}, .center_keys = true});
                },
                kOption, "softmax kernel"},
        BadCall{"CentringOfExact",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.attention = "exact", .center_keys = true});
                },
                kOption, "belong to linear attention"},
        BadCall{
            "CompatMap",
            [] {
              Call({5, 4}, {5, 4}, {5, 4}, {.features = {.map = "oprf"}, .compat = Compat::kJax});
            },
            kOption, "compat"},
        BadCall{"CompatPlan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4},
                       {.plan = FeaturePlan::Draw({}, 1, 5, 0), .compat = Compat::kJax});
                },
                kData, "given a plan"},
        BadCall{"CompatScale",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.scale = -1, .compat = Compat::kJax});
                },
                kOption, "above 0"},
        BadCall{"NanQuery",
                [] {
                  Attend(kNan, Tensor({2, 2}), Tensor({2, 2}), {}, Context());
                },
                kData, "q: given NaN or infinity in row 1"},
        BadCall{"NanValue",
                [] {
                  Attend(Tensor({2, 2}), Tensor({2, 2}), kNan, {.attention = "exact"}, Context());
                },
                kData, "v: given NaN"},
        BadCall{"HugeKey",
                [] {
                  Attend(Tensor({2, 2}), kHuge, Tensor({2, 2}), {}, Context());
                },
                kData, "k: given values up to 1e+20"},
        BadCall{
            "HugeScale",
            [] { Attend(kUnit, kUnit, kUnit, {.attention = "exact", .scale = 1e300}, Context()); },
            kData, "at scale 1e+300"},
        BadCall{"HugeValue",
                [] {
                  Attend(Tensor({2, 2}), Tensor({2, 2}), kHugeValue, {}, Context());
                },
                kData, "v: given values up to 3e+38"},
        BadCall{"UnnormalizedOverflow",
                [] {
                  Attend(kLarge, kLarge, kUnit, {.attention = "exact", .renormalize = false},
                         Context());
                },
                kData, "exceeds the range of f32"},
        BadCall{"MatrixRank", [] { AttentionMatrix(Tensor({4}), Tensor({4}), {}, Context()); },
                kData, "expected [L, d]"},
        BadCall{"IdentityLengths",
                [] {
                  Call({5, 4}, {6, 4}, {6, 4}, {.attention = "identity"});
                },
                kData, "identity"},
        BadCall{"Plan",
                [] {
                  Call({5, 4}, {5, 4}, {5, 4}, {.plan = FeaturePlan::Draw({}, 2, 4, 0)});
                },
                kData, "given a plan of 2 heads"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace favor
