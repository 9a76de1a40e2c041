// Linear attention: its arithmetic is exact, and the result does not depend on how work is cut.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <tuple>

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
    const Tensor want = LongDoubleFavor(q, k, v, plan.Omega(), causal);
    const Tensor out = Attend(q, k, v, {.causal = causal, .plan = plan}, context);
    const double error = LargestDifference(out, want);
    EXPECT_LE(error, tolerance) << (causal ? "causal" : "bidirectional");
    RecordProperty(causal ? "causal" : "bidirectional", fmt::format("{:.1e}", error));
    const Tensor reference =
        Attend(q, k, v, {.causal = causal, .reference = true, .plan = plan}, context);
    EXPECT_LE(LargestDifference(reference, want), 1e-9);
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
    cases.push_back({deviation == 1 || deviation == 8 ? 2048 : 600, 64, 256, deviation, 1e-4});
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

// A sequence that is cut into blocks (9000 rows: three) equals the reference, which is cut too, and
// a single pass over its parts.
TEST(Linear, LongSequencesAreCutWithoutATrace) {
  const Tensor q = RandomTensor({9000, 8}, 1, 1), k = RandomTensor({9000, 8}, 1, 2),
               v = RandomTensor({9000, 4}, 1, 3);
  const auto plan = FeaturePlan::Draw({.features = 16}, 1, 8, 3);
  for (const bool causal : {false, true}) {
    const Tensor out = Attend(q, k, v, {.causal = causal, .plan = plan}, Context());
    EXPECT_LE(LargestDifference(out, LongDoubleFavor(q, k, v, plan.Omega(), causal)), 1e-5);
  }
}

// Many equal keys: a sum in float would stop growing.
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

// Sums over a million keys in pairs of floats. Values that swing make sums rise to 1e8 and return
// to 1e5: what plain floats would lose on the way (half an ulp of up to 8 for each of 17,000
// chunks, in random directions: 1e3) then becomes visible. Eight heads, because fewer are cut into
// blocks whose states merge in double; they share keys, values and the memory of queries. The first
// and the last head are computed by hand.
TEST(Linear, AMillionKeysAreSummedWithoutLoss) {
  const int64_t length = 1 << 20, heads = 8, d = 8, m = 8, last = 64;
  Tensor q({length, d}), k({length, d}), v({length, d});
  const auto fill = [](Tensor& x, uint64_t state) {  // uniform in ±1
    for (int64_t i = 0; i < x.shape().Elements(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x.Data<float>()[i] = static_cast<float>(state >> 40) * 0x1p-23f - 1;
    }
  };
  fill(q, 1);
  fill(k, 2);
  fill(v, 3);
  for (int64_t i = 0; i < length; ++i) {
    const double turn = static_cast<double>(i) / static_cast<double>(length);
    const auto swing = static_cast<float>(1000 * std::cos(2 * std::numbers::pi * turn));
    for (int64_t c = 0; c < d; ++c) v.Data<float>()[i * d + c] += swing;
  }
  const ConstView queries(q.Data<float>(), DataType::kF32, {heads, length, d}, {0, d, 1}, Device{});
  const auto one_head = [&](const Tensor& x) {
    return ConstView(x.Data<float>(), Shape{1, length, d});
  };
  const auto plan = FeaturePlan::Draw({.features = m}, heads, d, 5);
  const Tensor out =
      Attend(queries, one_head(k), one_head(v), {.causal = true, .plan = plan}, Context());
  const Tensor omega = plan.Omega();
  const double scale = std::pow(static_cast<double>(d), -0.25);
  double largest_error = 0;
  for (const int64_t head : {int64_t{0}, heads - 1}) {
    const auto phi = [&](const Tensor& x, int64_t row, double* features) {
      double square = 0;
      for (int64_t i = 0; i < d; ++i) square += std::pow(scale * x.Data<float>()[row * d + i], 2);
      for (int64_t r = 0; r < m; ++r) {
        double u = 0;
        for (int64_t i = 0; i < d; ++i)
          u += scale * x.Data<float>()[row * d + i] * omega.Data<float>()[(head * m + r) * d + i];
        features[r] = std::exp(u - square / 2);
      }
    };
    double s[m][d] = {}, z[m] = {}, features[m];
    for (int64_t row = 0; row < length; ++row) {
      phi(k, row, features);
      for (int64_t r = 0; r < m; ++r) {
        z[r] += features[r];
        for (int64_t c = 0; c < d; ++c) s[r][c] += features[r] * v.Data<float>()[row * d + c];
      }
      if (row < length - last) continue;
      phi(q, row, features);
      for (int64_t c = 0; c < d; ++c) {
        double numerator = 0, denominator = 0;
        for (int64_t r = 0; r < m; ++r) {
          numerator += features[r] * s[r][c];
          denominator += features[r] * z[r];
        }
        largest_error = std::max(
            largest_error,
            std::fabs(out.Data<float>()[(head * length + row) * d + c] - numerator / denominator));
      }
    }
  }
  // Products of 60 rows are summed in floats before they join the pairs: 6e4·2⁻²⁴ = 4e-3 for each
  // chunk, 0.5 over all of them, divided by a denominator of 1e6.
  EXPECT_LE(largest_error, 5e-6);
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

// Centring does not change the softmax: the estimate keeps its target, normalised or not.
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

// oprf's A comes from the keys as the map sees them: after centring.
// By hand: the mean over pairs of ‖q + k‖², A from its formula (Likhosherstov et al. 2022), and a
// call with that A and keys that the test has centred.
TEST(Linear, OprfTakesAFromCentredKeys) {
  const int64_t lq = 30, lk = 40, d = 6;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const Tensor q = RandomTensor({lq, d}, 0.8, 1), v = RandomTensor({lk, 3}, 1, 3);
  Tensor k = RandomTensor({lk, d}, 0.8, 2), frozen = RandomTensor({d}, 0.3, 4), mask({lk});
  for (int64_t i = 0; i < lk * d; ++i) k.Data<float>()[i] += 2.0f;
  for (int64_t i = 0; i < d; ++i) frozen.Data<float>()[i] += 2.0f;
  for (int64_t j = 0; j < lk; ++j) mask.Data<float>()[j] = j % 5 == 3 ? 0.0f : 1.0f;
  const auto exists = [&](int64_t j) { return mask.Data<float>()[j] != 0; };
  const Tensor omega = FeaturePlan::Draw({.map = "oprf", .features = 32}, 1, d, 3).Omega();
  const auto optimal_a = [&](const Tensor& keys) {
    double sum = 0, pairs = 0;
    for (int64_t i = 0; i < lq; ++i) {
      for (int64_t j = 0; j < lk; ++j) {
        if (!exists(j)) continue;
        ++pairs;
        for (int64_t c = 0; c < d; ++c) {
          sum += scale * std::pow(static_cast<double>(q.Data<float>()[i * d + c]) +
                                      static_cast<double>(keys.Data<float>()[j * d + c]),
                                  2);
        }
      }
    }
    const double phi = sum / pairs / static_cast<double>(d);
    return (1 - 2 * phi - std::sqrt(std::pow(2 * phi + 1, 2) + 8 * phi)) / 16;
  };
  for (const bool own_mean : {true, false}) {
    Tensor centred = k.Clone();
    for (int64_t c = 0; c < d; ++c) {
      double mean = 0, count = 0;
      for (int64_t j = 0; j < lk; ++j) {
        if (!exists(j)) continue;
        mean += k.Data<float>()[j * d + c];
        ++count;
      }
      mean = own_mean ? mean / count : frozen.Data<float>()[c];
      for (int64_t j = 0; j < lk; ++j) {
        float& x = centred.Data<float>()[j * d + c];
        x = static_cast<float>(x - mean);
      }
    }
    const auto with_a = [&](double a) {
      AttentionOptions options{.key_mask = mask};
      options.plan = FeaturePlan::WithOmega({.map = "oprf", .oprf_a = {a}}, 1, omega);
      return Attend(q, centred, v, options, Context());
    };
    AttentionOptions options{.key_mask = mask, .center_keys = true};
    options.plan = FeaturePlan::WithOmega({.map = "oprf"}, 1, omega);
    if (!own_mean) options.key_mean = frozen;
    const Tensor out = Attend(q, k, v, options, Context());
    // Exponents stay below 16, with a rounding of 2⁻²⁴ each: a few 1e-6 of values of order 1.
    EXPECT_LE(LargestDifference(out, with_a(optimal_a(centred))), 1e-5) << own_mean;
    EXPECT_GE(LargestDifference(out, with_a(optimal_a(k))), 1e-2) << "the two A do not differ";
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
                 phi_k = Features(*options.plan, k, Context(), FeatureRole::kKey);
    const int64_t width = plan.width();
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        double want = 0, size = 0;
        for (int64_t j = 0; j < 9; ++j) {
          for (int64_t r = 0; r < width; ++r) {
            const double term = phi_q.Data<double>()[i * width + r] *
                                phi_k.Data<double>()[j * width + r] * v.Data<float>()[j * 3 + c];
            want += term;
            size += std::fabs(term);
          }
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
      const Tensor out = Attend(q, k, v, options, Context(), {.report = &report});
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

}  // namespace
}  // namespace favor
