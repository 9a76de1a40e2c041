// Maps that make features from a row alone, without ω: taylor1 and taylor, whose kernels are
// polynomials of s = x·y exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>
#include <vector>

#include "core/scratch.h"
#include "core/simd.h"
#include "favor/error.h"
#include "tests/attention/oracle.h"

namespace favor {
namespace {

double Polynomial(const std::string& map, double s) {
  return map == "taylor1" ? 1 + s : 1 + s + s * s / 2;
}

// Attention by definition: weights are the polynomial of q·k/√d. Query heads 2h and 2h + 1 share
// the keys of head h.
Tensor ByHand(const std::string& map, const Tensor& q, const Tensor& k, const Tensor& v,
              const AttentionOptions& options) {
  const int64_t heads = q.shape()[0], length = q.shape()[1], d = q.shape()[2], dv = v.shape()[2];
  const float* mask = options.key_mask.empty() ? nullptr : options.key_mask.Data<float>();
  Tensor out({heads, length, dv}, DataType::kF64);
  for (int64_t row = 0; row < heads * length; ++row) {
    const int64_t first_key = row / length / 2 * length, i = row % length;
    double denominator = 0;
    double* to = out.Data<double>() + row * dv;
    for (int64_t j = 0; j < (options.causal ? i + 1 : length); ++j) {
      if (mask != nullptr && mask[j] == 0) continue;
      double dot = 0;
      for (int64_t c = 0; c < d; ++c)
        dot += static_cast<double>(q.Data<float>()[row * d + c]) *
               k.Data<float>()[(first_key + j) * d + c];
      const double weight = Polynomial(map, dot / std::sqrt(static_cast<double>(d)));
      denominator += weight;
      for (int64_t c = 0; c < dv; ++c) to[c] += weight * v.Data<float>()[(first_key + j) * dv + c];
    }
    for (int64_t c = 0; c < dv; ++c) to[c] = denominator > 0 ? to[c] / denominator : 0;
  }
  return out;
}

class RowMaps : public testing::TestWithParam<std::tuple<std::string, bool, bool>> {
 protected:
  static constexpr int64_t kLength = 150, kDim = 20, kValueDim = 7;

  RowMaps() {
    std::fill_n(mask.Data<float>(), kLength, 1.0f);
    for (const int64_t hidden : {0, 3, 59, 60, 149}) mask.Data<float>()[hidden] = 0;
    if (std::get<2>(GetParam())) options.key_mask = mask;
  }

  const std::string map = std::get<0>(GetParam());
  const Context context{{.seed = 5}};
  const Tensor q = RandomTensor({4, kLength, kDim}, 0.4, 1),
               k = RandomTensor({2, kLength, kDim}, 0.4, 2),
               v = RandomTensor({2, kLength, kValueDim}, 1, 3),
               grad_out = RandomTensor({4, kLength, kValueDim}, 1, 4);
  Tensor mask{{kLength}};
  AttentionOptions options{.causal = std::get<1>(GetParam()), .features = {.map = map}};
};

TEST_P(RowMaps, AreThePolynomialsOfTheirNames) {
  const Tensor want = ByHand(map, q, k, v, options);
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    EXPECT_LT(LargestDifference(Attend(q, k, v, options, context), want), 2e-5) << simd;
  }
  UseSimd(SimdNames().front());
  options.reference = true;
  EXPECT_LT(LargestDifference(Attend(q, k, v, options, context), want), 1e-11);
}

TEST_P(RowMaps, HaveTheGradientsOfTheReference) {
  const Tensor out = Attend(q, k, v, options, context);
  const AttentionGradients fast = AttendBackward({q, k, v, out, grad_out}, options, context);
  options.reference = true;
  const Tensor exact_out = Attend(q, k, v, options, context);
  const AttentionGradients exact = AttendBackward({q, k, v, exact_out, grad_out}, options, context);
  EXPECT_LT(LargestDifference(fast.q, exact.q), 1e-4);
  EXPECT_LT(LargestDifference(fast.k, exact.k), 1e-4);
  EXPECT_LT(LargestDifference(fast.v, exact.v), 1e-4);
  // Gradients of the reference against differences of the formula.
  constexpr double kStep = 1e-3;
  const auto loss = [&](const Tensor& keys) {
    const Tensor o = ByHand(map, q, keys, v, options);
    double sum = 0;
    for (int64_t i = 0; i < o.shape().Elements(); ++i)
      sum += o.Data<double>()[i] * grad_out.Data<float>()[i];
    return sum;
  };
  for (const int64_t at : {int64_t{3}, int64_t{40 * 20 + 7}, int64_t{3000 + 90 * 20 + 19}}) {
    Tensor up = k.Clone(), down = k.Clone();
    up.Data<float>()[at] += static_cast<float>(kStep);
    down.Data<float>()[at] -= static_cast<float>(kStep);
    const double difference = static_cast<double>(up.Data<float>()[at]) - down.Data<float>()[at];
    EXPECT_NEAR(exact.k.Data<double>()[at], (loss(up) - loss(down)) / difference, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, RowMaps,
                         testing::Combine(testing::Values("taylor1", "taylor"), testing::Bool(),
                                          testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) ? "_causal" : "_bidirectional") +
                                  (std::get<2>(test.param) ? "_masked" : "");
                         });

TEST(RowMap, HasNoOmega) {
  for (const auto& [map, width, kernel] :
       {std::tuple{"taylor1", 10, 2.0}, std::tuple{"taylor", 55, 2.5}}) {
    const auto plan = FeaturePlan::Draw({.map = map}, 2, 9, 1);
    EXPECT_EQ(plan.width(), width);
    EXPECT_EQ(plan.features(), width);
    EXPECT_THROW(plan.Omega(), Error);
    EXPECT_THROW(FeaturePlan::WithOmega({.map = map}, 2, Tensor({width, 9})), Error);
    const std::vector<double> x = {1, 2, 0, 0, 0, 0, 0, 0, 0}, y = {3, -1, 5, 0, 0, 0, 0, 0, 0};
    EXPECT_NEAR(*plan.Kernel(x, y), kernel, 1e-12);
    EXPECT_EQ(*plan.ExpectedMse(x, y), 0);
  }
}

TEST(RowMap, RefusesDimsThatMakeTooManyFeatures) {
  EXPECT_EQ(FeaturePlan::Draw({.map = "taylor"}, 1, 254, 1).width(), 32640);
  EXPECT_EQ(FeaturePlan::Draw({.map = "taylor1"}, 1, 4096, 1).width(), 4097);
  try {
    FeaturePlan::Draw({.map = "taylor"}, 1, 255, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_STREQ(error.what(),
                 "dim: given 255 for the map 'taylor', which makes 32896 features of it, expected "
                 "at most 32768");
  }
}

// With K ≥ 1/2 no denominator is small: signed features, but the digits of a positive map. Entries
// as they are, without a scale.
TEST(Taylor, IsWithinRoundingOfTheReference) {
  const Context context;
  for (const bool causal : {false, true}) {
    AttentionOptions options{.causal = causal, .scale = 1, .features = {.map = "taylor"}};
    for (const double deviation : {0.5, 1.0, 8.0}) {
      const Tensor q = RandomTensor({300, 16}, deviation, 1), v = RandomTensor({300, 33}, 1, 3),
                   k = RandomTensor({300, 16}, deviation, 2);
      options.reference = false;
      AttentionReport report;
      const Tensor out = Attend(q, k, v, options, context, {.report = &report});
      EXPECT_EQ(report.nonpositive_rows, 0);
      options.reference = true;
      EXPECT_LT(LargestDifference(out, Attend(q, k, v, options, context)), 1e-5) << deviation;
    }
  }
}

// Rows whose kernel is 1/2 but whose features are so long that float loses it: such a row is
// counted and 0, or has the one value there is.
TEST(Taylor, CountsDenominatorsThatRoundingMakesNonpositive) {
  const Context context;
  constexpr int64_t kRows = 500, kDim = 16;
  const Tensor q = RandomTensor({kRows, 1, kDim}, 64, 1);
  Tensor k = RandomTensor({kRows, 1, kDim}, 64, 2), v({kRows, 1, 3});
  std::fill_n(v.Data<float>(), kRows * 3, 2.0f);
  for (int64_t row = 0; row < kRows; ++row) {  // s ≈ −1
    const float* x = q.Data<float>() + row * kDim;
    float* y = k.Data<float>() + row * kDim;
    double dot = 1, square = 0;
    for (int64_t i = 0; i < kDim; ++i) {
      dot += static_cast<double>(x[i]) * y[i];
      square += static_cast<double>(x[i]) * x[i];
    }
    for (int64_t i = 0; i < kDim; ++i) y[i] -= static_cast<float>(dot / square * x[i]);
  }
  AttentionOptions options{.scale = 1, .features = {.map = "taylor"}};
  AttentionReport report;
  const Tensor out = Attend(q, k, v, options, context, {.report = &report});
  int64_t zeros = 0;
  for (int64_t i = 0; i < kRows * 3; ++i) {
    const float value = out.Data<float>()[i];
    if (value == 0) {
      ++zeros;
    } else {
      EXPECT_NEAR(value, 2, 1e-5);
    }
  }
  EXPECT_GT(report.nonpositive_rows, 0);
  EXPECT_LT(report.nonpositive_rows, kRows);
  EXPECT_EQ(zeros, 3 * report.nonpositive_rows);
  options.reference = true;
  Attend(q, k, v, options, context, {.report = &report});
  EXPECT_EQ(report.nonpositive_rows, 0);
}

// Vectors reach beyond rows: what they find there must not count, whatever memory held before.
TEST(Taylor, DoesNotDependOnWhatMemoryHeld) {
  const Tensor q = RandomTensor({70, 17}, 0.5, 1), k = RandomTensor({70, 17}, 0.5, 2),
               v = RandomTensor({70, 3}, 1, 3), grad_out = RandomTensor({70, 3}, 1, 4);
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal, .features = {.map = "taylor"}};
    const auto gradients = [&](float held) {
      const Context context({.threads = 1});
      {
        std::deque<Scratch<float>> buffers;  // more than a call has in use at once
        for (int i = 0; i < 16; ++i)
          std::fill_n(buffers.emplace_back(context, 1 << 18).data(), 1 << 18, held);
      }
      const Tensor out = Attend(q, k, v, options, context);
      return AttendBackward({q, k, v, out, grad_out}, options, context);
    };
    const AttentionGradients want = gradients(0);
    for (const float held : {1.0f, NAN}) {
      const AttentionGradients got = gradients(held);
      EXPECT_EQ(LargestDifference(got.q, want.q), 0);
      EXPECT_EQ(LargestDifference(got.k, want.k), 0);
      EXPECT_EQ(LargestDifference(got.v, want.v), 0);
    }
  }
}

TEST(Taylor, RefusesWhatItCannotComputeWith) {
  const Context context;
  const AttentionOptions options{.features = {.map = "taylor"}};
  const Tensor v = RandomTensor({9, 3}, 1, 3);
  for (const float bad : {NAN, INFINITY, 1e9f}) {
    for (const bool in_keys : {false, true}) {
      Tensor q = RandomTensor({9, 17}, 0.5, 1), k = RandomTensor({9, 17}, 0.5, 2);
      (in_keys ? k : q).Data<float>()[5 * 17 + 16] = bad;
      EXPECT_THROW(Attend(q, k, v, options, context), Error) << bad;
    }
  }
}

}  // namespace
}  // namespace favor
