// From options to a plan: what is refused, and what a given ω does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/json.h"
#include "favor/error.h"
#include "favor/features.h"
#include "favor/random.h"
#include "features/option_fields.h"

namespace favor {
namespace {

using Vector = std::vector<double>;

struct BadOptions {
  const char* name;
  FeatureOptions options;
  int64_t heads, dim;
  const char* says;
};

class RefusedPlan : public testing::TestWithParam<BadOptions> {};

TEST_P(RefusedPlan, SaysWhy) {
  const BadOptions& bad = GetParam();
  try {
    FeaturePlan::Draw(bad.options, bad.heads, bad.dim, 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
    EXPECT_NE(std::string(error.what()).find(bad.says), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, RefusedPlan,
    testing::Values(
        BadOptions{"UnknownMap", {.map = "positiv"}, 1, 8, "did you mean 'positive'?"},
        BadOptions{"NoFeatures", {.features = 0}, 1, 8, "features: given 0, expected 1 to"},
        BadOptions{"NegativeFeatures", {.features = -5}, 1, 8, "given -5"},
        BadOptions{"AbsurdFeatures", {.features = int64_t{1} << 40}, 1, 8, "expected 1 to 1048576"},
        BadOptions{"NoHeads", {}, 0, 8, "heads: given 0"},
        BadOptions{"NoDim", {}, 1, 0, "dim: given 0"},
        BadOptions{"AbsurdDim", {}, 1, 1 << 20, "dim: given 1048576"},
        BadOptions{"TooLargeOmega", {.features = 1 << 20}, 64, 4096, "more than 2^30 elements"},
        BadOptions{"RegularizedWithChi",
                   {.map = "regularized", .omega_norm = OmegaNorm::kChi},
                   1,
                   8,
                   "right only with sqrt-d"},
        BadOptions{"OprfWithSqrtD",
                   {.map = "oprf", .omega_norm = OmegaNorm::kSqrtD},
                   1,
                   8,
                   "right only with chi"},
        BadOptions{"OprfATooLarge", {.map = "oprf", .oprf_a = {0.125}}, 1, 8, "below 1/8"},
        BadOptions{"OprfANan", {.map = "oprf", .oprf_a = {std::nan("")}}, 1, 8, "below 1/8"},
        BadOptions{
            "OprfAWrongCount", {.map = "oprf", .oprf_a = {-0.1, -0.2}}, 3, 8, "given 2 values"},
        BadOptions{"OprfAElsewhere", {.map = "positive", .oprf_a = {-0.1}}, 1, 8, "takes none"},
        BadOptions{
            "EpsilonElsewhere", {.map = "positive", .kernel_epsilon = 1e-4}, 1, 8, "takes none"},
        BadOptions{"NegativeEpsilon", {.map = "relu", .kernel_epsilon = -1}, 1, 8, "expected 0 to"},
        BadOptions{"SoftmaxWithoutProjection",
                   {.map = "positive", .projection = "none"},
                   1,
                   8,
                   "needs a random one"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Plan, KnowsItsSizes) {
  const auto plan = FeaturePlan::Draw({.map = "trigonometric", .features = 20}, 3, 8, 0);
  EXPECT_EQ(plan.heads(), 3);
  EXPECT_EQ(plan.dim(), 8);
  EXPECT_EQ(plan.features(), 20);
  EXPECT_EQ(plan.width(), 40);
  EXPECT_NEAR(plan.LogNormalizer(2), -std::log(20) / 2, 1e-15);
  EXPECT_NEAR(FeaturePlan::Draw({.map = "hyperbolic", .features = 20}, 1, 8, 0).LogNormalizer(0),
              -std::log(40) / 2, 1e-15);
  EXPECT_EQ(FeaturePlan::Draw({.map = "elu", .projection = "none"}, 1, 8, 0).features(), 8);
}

TEST(Plan, WithGivenOmegaEqualsTheDrawnOne) {
  Tensor x({2, 5, 6}, DataType::kF64);
  RandomStream(1, "x").FillNormal(0, {x.Data<double>(), 60});
  for (int64_t i = 0; i < 60; ++i) x.Data<double>()[i] *= 0.4;
  const Context context;
  for (const char* projection : {"gaussian", "orthogonal", "hadamard", "givens"}) {
    for (const char* map : {"positive", "oprf", "trigonometric", "relu"}) {
      const FeatureOptions options{.map = map, .projection = projection, .features = 9};
      const auto drawn = FeaturePlan::Draw(options, 2, 6, 5);
      const auto given = FeaturePlan::WithOmega(options, 2, drawn.Omega());
      const Tensor a = Features(drawn, x, context), b = Features(given, x, context);
      for (int64_t i = 0; i < a.shape().Elements(); ++i) {
        EXPECT_NEAR(a.Data<double>()[i], b.Data<double>()[i],
                    1e-6 * (1 + std::fabs(a.Data<double>()[i])));
      }
      EXPECT_FALSE(given.Kernel(Vector(6), Vector(6)).has_value());
    }
  }
}

// 1 + 2⁻⁸ and 1 + 3·2⁻⁸ lie halfway between neighbours of bf16, which has 7 bits of fraction: they
// go to the even one.
TEST(Plan, RoundsAGivenOmegaToItsType) {
  const double given[] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, -0.1, 1 + 0x1p-8 + 0x1p-30};
  const ConstView omega(given, {2, 2});
  const auto rounded = FeaturePlan::WithOmega({.omega_type = OmegaType::kBF16}, 1, omega);
  const Tensor held = rounded.Omega();
  const float want[] = {1.0f, 1.015625f, -0.10009765625f, 1.0078125f};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(held.Data<float>()[i], want[i]) << i;
  EXPECT_EQ(FeaturePlan::WithOmega({}, 1, omega).Omega().Data<float>()[0], 1 + 0x1p-8f);
}

TEST(Plan, RoundsADrawnOmegaToItsTypeAndUsesIt) {
  Tensor x({2, 5, 6}, DataType::kF64);
  RandomStream(1, "x").FillNormal(0, {x.Data<double>(), 60});
  for (const char* projection : {"gaussian", "orthogonal", "hadamard", "givens"}) {
    FeatureOptions options{.map = "relu", .projection = projection, .features = 9};
    const Tensor exact = FeaturePlan::Draw(options, 2, 6, 5).Omega();
    options.omega_type = OmegaType::kBF16;
    const auto plan = FeaturePlan::Draw(options, 2, 6, 5);
    const Tensor omega = plan.Omega(), rounded = exact.To(DataType::kBF16).To(DataType::kF32);
    ASSERT_EQ(omega.shape(), rounded.shape());
    EXPECT_EQ(
        std::memcmp(omega.Data<float>(), rounded.Data<float>(), static_cast<size_t>(omega.Bytes())),
        0)
        << projection;
    // Features come from the rounded numbers, and rounding again changes nothing.
    const Tensor a = Features(plan, x, Context()),
                 b = Features(FeaturePlan::WithOmega(options, 2, omega), x, Context());
    EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())), 0)
        << projection;
  }
}

TEST(Plan, WhatHasNoOmegaIsNotRounded) {
  Tensor x({5, 6}, DataType::kF64);
  RandomStream(1, "x").FillNormal(0, {x.Data<double>(), 30});
  for (FeatureOptions options :
       {FeatureOptions{.map = "elu", .projection = "none"}, FeatureOptions{.map = "taylor"}}) {
    const Tensor a = Features(FeaturePlan::Draw(options, 1, 6, 5), x, Context());
    options.omega_type = OmegaType::kBF16;
    const Tensor b = Features(FeaturePlan::Draw(options, 1, 6, 5), x, Context());
    EXPECT_EQ(std::memcmp(a.Data<double>(), b.Data<double>(), static_cast<size_t>(a.Bytes())), 0)
        << options.map;
  }
}

TEST(Plan, FilesWithoutATypeOfOmegaMeanF32) {
  FeatureOptions options;
  EXPECT_FALSE(FieldsToJson(features::OptionFields(options), features::OptionFields(options))
                   .contains("omega_type"));
  FeatureOptions rounded{.omega_type = OmegaType::kBF16};
  EXPECT_NE(options, rounded);
  const Json json = FieldsToJson(features::OptionFields(rounded), features::OptionFields(options));
  EXPECT_EQ(json["omega_type"], "bf16");
  FeatureOptions read;
  FieldsFromJson("config", json, features::OptionFields(read));
  EXPECT_EQ(read, rounded);
  FeatureOptions old;
  FieldsFromJson("config", Json{{"map", "relu"}}, features::OptionFields(old));
  EXPECT_EQ(old.omega_type, OmegaType::kF32);
}

TEST(Plan, RefusesAnOmegaThatDoesNotFit) {
  const auto code = [](const Tensor& omega, int64_t heads) {
    try {
      FeaturePlan::WithOmega({}, heads, omega);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kIo;
  };
  EXPECT_EQ(code(Tensor({3}), 1), ErrorCode::kInvalidData);
  EXPECT_EQ(code(Tensor({2, 3, 4}), 3), ErrorCode::kInvalidData);
  EXPECT_EQ(code(Tensor({0, 4}), 1), ErrorCode::kInvalidData);
  Tensor nan({2, 2});
  nan.Data<float>()[3] = std::nanf("");
  EXPECT_EQ(code(nan, 1), ErrorCode::kInvalidData);
}

TEST(Plan, KernelWithoutProjectionIsTheDotProduct) {
  const auto plan =
      FeaturePlan::Draw({.map = "relu", .projection = "none", .kernel_epsilon = 0}, 1, 3, 0);
  EXPECT_NEAR(*plan.Kernel(Vector{1, -2, 3}, Vector{2, 5, 1}), (2 + 0 + 3) / 3.0, 1e-12);
  EXPECT_EQ(*plan.ExpectedMse(Vector{1, -2, 3}, Vector{2, 5, 1}), 0);
  EXPECT_THROW(plan.Kernel(Vector{1}, Vector{1, 2, 3}), Error);
}

// Compares the mean over all pairs with the O(L²) double loop, and A with a search over the second
// moment.
TEST(Oprf, TakesTheOptimalAFromTheData) {
  const int64_t heads = 2, length = 70, d = 4;
  Tensor q({heads, length, d}), k({heads, length + 9, d});
  for (Tensor* tensor : {&q, &k}) {
    std::vector<double> values(static_cast<size_t>(tensor->shape().Elements()));
    RandomStream(tensor == &q ? 1 : 2, "rows").FillNormal(0, values);
    for (size_t i = 0; i < values.size(); ++i)
      tensor->Data<float>()[i] = static_cast<float>(0.5 * values[i] + 0.2);
  }
  const auto a = OptimalOprfA(q, k, Context({.threads = 2}));
  ASSERT_EQ(a.size(), 2u);
  for (int64_t head = 0; head < heads; ++head) {
    double square = 0;
    for (int64_t i = 0; i < q.shape()[1]; ++i) {
      for (int64_t j = 0; j < k.shape()[1]; ++j) {
        for (int64_t c = 0; c < d; ++c) {
          const double sum = q.Data<float>()[(head * q.shape()[1] + i) * d + c] +
                             k.Data<float>()[(head * k.shape()[1] + j) * d + c];
          square += sum * sum;
        }
      }
    }
    square /= static_cast<double>(q.shape()[1] * k.shape()[1]);
    EXPECT_NEAR(a[static_cast<size_t>(head)], OptimalOprfA(square, d), 1e-6);
    const auto log_second_moment = [&](double value) {
      const double t = 1 - 8 * value;
      return d * std::log((1 + t) / 2) - d / 2.0 * std::log(t) + square / t;
    };
    const double best = log_second_moment(a[static_cast<size_t>(head)]);
    for (double step = -0.5; step <= 0.12; step += 0.001)
      EXPECT_GE(log_second_moment(step), best - 1e-12);
  }
  EXPECT_EQ(OptimalOprfA(q, k, Context({.threads = 3})), a);
  EXPECT_EQ(OptimalOprfA(k, q, Context({.threads = 1})), a);  // symmetric in queries and keys
  EXPECT_THROW(OptimalOprfA(q, Tensor({3, 4, 4}), Context()), Error);

  // A batch of q and −q: the mean of its queries is 0, so that squares add up.
  Tensor both({2, heads, length, d}), twice({2, heads, length + 9, d});
  const int64_t queries = q.shape().Elements(), keys = k.shape().Elements();
  for (int64_t i = 0; i < 2 * queries; ++i)
    both.Data<float>()[i] = (i < queries ? 1.0f : -1.0f) * q.Data<float>()[i % queries];
  for (int64_t i = 0; i < 2 * keys; ++i) twice.Data<float>()[i] = k.Data<float>()[i % keys];
  const auto of_batch = OptimalOprfA(both, twice, Context());
  for (int64_t head = 0; head < heads; ++head) {
    const auto mean_square = [&](const Tensor& x) {
      const int64_t rows = x.shape()[1];
      double square = 0;
      for (int64_t i = head * rows * d; i < (head + 1) * rows * d; ++i)
        square += std::pow(x.Data<float>()[i], 2) / static_cast<double>(rows);
      return square;
    };
    EXPECT_NEAR(of_batch[static_cast<size_t>(head)],
                OptimalOprfA(mean_square(q) + mean_square(k), d), 1e-6);
  }
}

}  // namespace
}  // namespace favor
