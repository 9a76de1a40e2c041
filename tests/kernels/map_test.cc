// Every map of the table: derivatives, signs, closed forms, and f32 against f64.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "core/simd.h"
#include "features/projection.h"
#include "kernels/features.h"
#include "kernels/map_table.h"

namespace favor::kernels {
namespace {

const std::vector<double> kArguments = {-3.1, -1.7, -0.6, -0.11, 0.09, 0.4, 1.3, 2.9};

class EveryMap : public testing::TestWithParam<MapEntry> {
 protected:
  const MapTraits& traits() const { return *GetParam().traits; }
  double epsilon() const { return traits().info.default_epsilon.value_or(0); }

  // Features of so many arguments: those of masked maps have two each.
  size_t FeaturesOf(size_t arguments) const { return arguments / (GetParam().masked ? 2 : 1); }

  // Exponents and factors at u, one lane, with offset 0.3 and ‖x‖²/2 = 0.7 everywhere.
  std::pair<std::vector<double>, std::vector<double>> Evaluate(const std::vector<double>& u) const {
    const std::vector<double> offset(u.size(), 0.3);
    const double half_norm = 0.7;
    const MapTile<double> tile{static_cast<int64_t>(FeaturesOf(u.size())),
                               1,
                               u.data(),
                               &half_norm,
                               offset.data(),
                               epsilon(),
                               traits().norm_slope};
    const size_t width = FeaturesOf(u.size()) * static_cast<size_t>(traits().info.parts);
    std::vector<double> exponents(width), factors(width);
    GetParam().evaluate(tile, exponents.data(), factors.data());
    return {exponents, factors};
  }

  // A head that takes x itself for u.
  std::unique_ptr<FeatureConstants> Unprojected(int64_t dim) const {
    std::vector<Omega> omega;
    omega.push_back(features::FindProjection("none").draw(
        {.features = dim, .dim = dim, .norm = OmegaNorm::kChi, .stream = RandomStream(1, "test")}));
    return std::make_unique<FeatureConstants>(FeatureParts{.map = GetParam(),
                                                           .dim = dim,
                                                           .epsilon = epsilon(),
                                                           .oprf_a = {0.0},
                                                           .omega = std::move(omega)});
  }
};

// Both backends on one row of a head.
void FeaturesOfRow(const FeatureConstants& constants, const std::vector<float>& x,
                   std::vector<float>& exponents, std::vector<float>& factors) {
  cpu::Features({.constants = constants,
                 .heads = 1,
                 .x = ConstView(x.data(), {1, 1, constants.dim()}),
                 .exponents = View(exponents.data(), {1, 1, constants.width()}),
                 .factors = View(factors.data(), {1, 1, constants.width()})},
                Context());
}

TEST_P(EveryMap, HasTheDerivativeOfItsFormula) {
  const double step = 1e-6;
  std::vector<double> up = kArguments, down = kArguments;
  for (double& u : up) u += step;
  for (double& u : down) u -= step;
  const auto [exponents_up, factors_up] = Evaluate(up);
  const auto [exponents_down, factors_down] = Evaluate(down);
  const size_t count = kArguments.size(), width = exponents_up.size(), m = FeaturesOf(count);
  // A different weight for every output, so that no two errors cancel.
  std::vector<double> grad_exponents(width), grad_factors(width), want(count, 0), got(count);
  for (size_t i = 0; i < width; ++i) {
    grad_exponents[i] = 1 + 0.1 * static_cast<double>(i);
    grad_factors[i] = 2 - 0.07 * static_cast<double>(i);
    want[i % m] += grad_exponents[i] * (exponents_up[i] - exponents_down[i]) / (2 * step);
    want[count - m + i % m] += grad_factors[i] * (factors_up[i] - factors_down[i]) / (2 * step);
  }
  const MapTile<double> tile{
      static_cast<int64_t>(m), 1, kArguments.data(), nullptr, nullptr, epsilon(), 0};
  GetParam().backward(tile, grad_exponents.data(), grad_factors.data(), got.data());
  for (size_t i = 0; i < count; ++i)
    EXPECT_NEAR(got[i], want[i], 1e-8 * (1 + std::fabs(want[i]))) << kArguments[i];
}

TEST_P(EveryMap, SaysItsSignTruly) {
  const auto [exponents, factors] = Evaluate(kArguments);
  bool negative = false;
  for (const double factor : factors) negative = negative || factor < 0;
  EXPECT_EQ(!negative, traits().info.nonnegative);
}

TEST_P(EveryMap, SaysTrulyWhetherItHasAFactor) {
  const auto [exponents, factors] = Evaluate(kArguments);
  bool one = true;
  for (const double factor : factors) one = one && factor == 1;
  EXPECT_EQ(!one, traits().has_factor);
}

TEST_P(EveryMap, AgreesInFloatAndDoubleOnEverySimdTarget) {
  // More than one vector of the widest, and a remainder.
  std::vector<double> x;
  for (int i = 0; i < 37; ++i) x.push_back(kArguments[static_cast<size_t>(i) % 8] + 0.01 * i);
  const std::vector<float> x_f32(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) x[i] = x_f32[i];
  const auto constants = Unprojected(37);
  const HeadFeatures head = constants->Head(0);
  const auto width = static_cast<size_t>(head.width);
  std::vector<double> exponents(width), factors(width), grad_exponents(width), grad_factors(width),
      grad_x(37);
  reference::FeaturesOf(head, FeatureRole::kQuery, x.data(), exponents.data(), factors.data());
  for (size_t i = 0; i < width; ++i) {
    grad_exponents[i] = static_cast<float>(0.1 + 0.03 * static_cast<double>(i % 7));
    grad_factors[i] = static_cast<float>(0.2 - 0.05 * static_cast<double>(i % 5));
  }
  reference::FeatureGradientOf(head, FeatureRole::kQuery, x.data(), grad_exponents.data(),
                               grad_factors.data(), grad_x.data());
  const std::vector<float> grad_exponents_f32(grad_exponents.begin(), grad_exponents.end()),
      grad_factors_f32(grad_factors.begin(), grad_factors.end());
  const Context context;
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    std::vector<float> exponents_f32(width), factors_f32(width), grad_x_f32(37);
    FeaturesOfRow(*constants, x_f32, exponents_f32, factors_f32);
    for (size_t i = 0; i < width; ++i) {
      EXPECT_NEAR(exponents_f32[i], exponents[i], 2e-7 * (10 + std::fabs(exponents[i]))) << simd;
      EXPECT_NEAR(factors_f32[i], factors[i], 2e-6) << simd;
    }
    const Shape shape{1, 1, head.width};
    cpu::FeaturesBackward({.constants = *constants,
                           .heads = 1,
                           .x = ConstView(x_f32.data(), {1, 1, 37}),
                           .grad_exponents = ConstView(grad_exponents_f32.data(), shape),
                           .grad_factors = ConstView(grad_factors_f32.data(), shape),
                           .grad_x = View(grad_x_f32.data(), {1, 1, 37})},
                          context);
    for (size_t i = 0; i < grad_x.size(); ++i)
      EXPECT_NEAR(grad_x_f32[i], grad_x[i], 2e-6 * (1 + std::fabs(grad_x[i]))) << simd;
  }
  UseSimd(SimdNames().front());
}

TEST_P(EveryMap, StaysFiniteForHugeArguments) {
  const auto constants = Unprojected(2);
  const std::vector<float> x = {-3000, 3000};
  std::vector<float> exponents(4), factors(4);
  FeaturesOfRow(*constants, x, exponents, factors);
  for (int64_t i = 0; i < constants->width(); ++i) {
    EXPECT_TRUE(std::isfinite(exponents[static_cast<size_t>(i)]));
    EXPECT_TRUE(std::isfinite(factors[static_cast<size_t>(i)]));
  }
}

// Compares mean and second moment of X, closed forms of every map under χ norms, with quadrature
// over the plane of x and y. X = Σ_parts exp(E(u) + E(v)) g(u) g(v) · normaliser².
TEST_P(EveryMap, HasTheKernelAndVarianceOfItsFormula) {
  if (traits().info.takes_width || traits().only_norm == OmegaNorm::kSqrtD)
    return;  // measured in features/estimator_test and features/local_mask_test
  for (const Pair pair : {Pair{0.5, 0.7, 0.2}, Pair{0.3, 0.9, -0.4}, Pair{0.6, 0.6, 0.6}}) {
    const Law law{
        .dim = 5, .omega_dim = 5, .norm = OmegaNorm::kChi, .epsilon = epsilon(), .oprf_a = 0};
    const Moments moments = GetParam().theory(pair, law);
    const auto moment = [&](int power) {
      return BivariateMean(pair, [&](double u, double v) {
        const std::vector<double> arguments = {u, v};
        const std::vector<double> offset(2, 0.0);
        double x = 0;
        const double half_norm = 0;
        const MapTile<double> tile{2, 1, arguments.data(), &half_norm, offset.data(), epsilon()};
        const int parts = traits().info.parts;
        double exponents[4], factors[4];
        GetParam().evaluate(tile, exponents, factors);
        for (int part = 0; part < parts; ++part) {
          x += std::exp(exponents[2 * part] + exponents[2 * part + 1]) * factors[2 * part] *
               factors[2 * part + 1];
        }
        x *= traits().normalizer * traits().normalizer *
             std::exp(traits().norm_slope * (pair.xx + pair.yy) / 2);
        return power == 1 ? x : x * x;
      });
    };
    ASSERT_TRUE(moments.mean && moments.second);
    EXPECT_NEAR(*moments.mean, moment(1), 1e-9 * (1 + std::fabs(*moments.mean)));
    EXPECT_NEAR(*moments.second, moment(2), 1e-8 * (1 + *moments.second));
  }
}

std::vector<MapEntry> ElementwiseMaps() {
  std::vector<MapEntry> maps;
  for (const MapEntry& map : AllMaps()) {
    if (!map.IsRowMap()) maps.push_back(map);
  }
  return maps;
}

INSTANTIATE_TEST_SUITE_P(Maps, EveryMap, testing::ValuesIn(ElementwiseMaps()),
                         [](const auto& test) {
                           std::string name(test.param.traits->info.name);
                           std::erase(name, '-');
                           return name;
                         });

class EveryRowMap : public testing::TestWithParam<std::tuple<MapEntry, int64_t>> {
 protected:
  const MapEntry map = std::get<0>(GetParam());
  const int64_t dim = std::get<1>(GetParam());
  const FeatureConstants constants{
      FeatureParts{.map = map,
                   .dim = dim,
                   .oprf_a = {0.0},
                   .polynomial = ExactShape(map.row.coefficients, dim)}};
  const std::vector<double> x = Row(dim, 1);

  static std::vector<double> Row(int64_t dim, double phase) {
    std::vector<double> row;
    for (int64_t i = 0; i < dim; ++i)
      row.push_back(static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i))));
    return row;
  }

  std::vector<double> Factors(const std::vector<double>& row) const {
    std::vector<double> exponents(static_cast<size_t>(constants.width()), 1.0), factors(exponents);
    reference::FeaturesOf(constants.Head(0), FeatureRole::kQuery, row.data(), exponents.data(),
                          factors.data());
    for (const double exponent : exponents) EXPECT_EQ(exponent, 0);
    return factors;
  }
};

TEST_P(EveryRowMap, HasTheDerivativeOfItsFormulaInBothTypesOnEverySimdTarget) {
  const auto width = static_cast<size_t>(constants.width());
  std::vector<double> grad_factors(width), none(width, 0.0), got(x.size());
  for (size_t i = 0; i < width; ++i)
    grad_factors[i] = static_cast<float>(0.3 - 0.1 * static_cast<double>(i % 9));
  reference::FeatureGradientOf(constants.Head(0), FeatureRole::kQuery, x.data(), none.data(),
                               grad_factors.data(), got.data());
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<double> up = x, down = x;
    up[i] += kStep;
    down[i] -= kStep;
    const std::vector<double> above = Factors(up), below = Factors(down);
    double want = 0;
    for (size_t r = 0; r < width; ++r)
      want += grad_factors[r] * (above[r] - below[r]) / (2 * kStep);
    EXPECT_NEAR(got[i], want, 1e-8 * (1 + std::fabs(want)));
  }
  const std::vector<double> want = Factors(x);
  const std::vector<float> x_f32(x.begin(), x.end()),
      grad_f32(grad_factors.begin(), grad_factors.end()), none_f32(width, 0.0f);
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    std::vector<float> exponents(width, 1.0f), factors(width), back(x.size());
    FeaturesOfRow(constants, x_f32, exponents, factors);
    for (size_t r = 0; r < width; ++r) {
      EXPECT_EQ(exponents[r], 0) << simd;
      EXPECT_NEAR(factors[r], want[r], 2e-7 * (1 + std::fabs(want[r]))) << simd;
    }
    const Shape shape{1, 1, constants.width()};
    cpu::FeaturesBackward({.constants = constants,
                           .heads = 1,
                           .x = ConstView(x_f32.data(), {1, 1, dim}),
                           .grad_exponents = ConstView(none_f32.data(), shape),
                           .grad_factors = ConstView(grad_f32.data(), shape),
                           .grad_x = View(back.data(), {1, 1, dim})},
                          Context());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], got[i], 2e-6) << simd;
  }
  UseSimd(SimdNames().front());
}

TEST_P(EveryRowMap, SaysItsSignTruly) {
  bool negative = false;
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> row = x;
    for (double& value : row) value *= sign;
    for (const double factor : Factors(row)) negative = negative || factor < 0;
  }
  EXPECT_EQ(!negative, map.traits->info.nonnegative);
}

TEST_P(EveryRowMap, HasTheKernelThatItSays) {
  const std::vector<double> y = Row(dim, 2);
  const std::vector<double> phi_x = Factors(x), phi_y = Factors(y);
  double dot = 0, s = 0;
  for (size_t r = 0; r < phi_x.size(); ++r) dot += phi_x[r] * phi_y[r];
  for (size_t i = 0; i < x.size(); ++i) s += x[i] * y[i];
  const double kernel = map.traits->info.name == "taylor1" ? 1 + s : 1 + s + s * s / 2;
  EXPECT_NEAR(dot, kernel, 1e-12 * (1 + std::fabs(dot)));
}

// Those with a polynomial of their own; others: tests/features/polynomial_map_test.cc.
std::vector<MapEntry> RowMaps() {
  std::vector<MapEntry> maps;
  for (const MapEntry& map : AllMaps()) {
    if (!map.row.coefficients.empty()) maps.push_back(map);
  }
  return maps;
}

// Dims below, at and above a vector of every target.
INSTANTIATE_TEST_SUITE_P(RowMaps, EveryRowMap,
                         testing::Combine(testing::ValuesIn(RowMaps()),
                                          testing::Values(1, 2, 5, 8, 16, 17, 21, 40)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).traits->info.name) + "_of_" +
                                  std::to_string(std::get<1>(test.param));
                         });

std::vector<double> RowFactors(std::string_view name, const std::vector<double>& x) {
  const MapEntry& map = *FindMap(name);
  const PolynomialShape shape = ExactShape(map.row.coefficients, static_cast<int64_t>(x.size()));
  const HeadFeatures head{
      .map = &map, .dim = shape.dim, .width = shape.width, .polynomial = &shape};
  std::vector<double> phi(static_cast<size_t>(shape.width));
  map.row.evaluate(x.data(), head.Tables(), phi.data());
  return phi;
}

TEST(Taylor, OrdersItsFeaturesByDegreeAndPairsByDistance) {
  const auto features = [](const std::vector<double>& x) { return RowFactors("taylor", x); };
  const double root = std::sqrt(0.5);
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << i;
  };
  expect(features({-3}), {1, -3, 9 * root});
  expect(features({2, -3}), {1, 2, -3, 4 * root, 9 * root, -6});
  expect(features({2, -3, 5}), {1, 2, -3, 5, 4 * root, 9 * root, 25 * root, -6, -15, 10});
}

// K = 1 + s + s²/2 from features, the smallest value 1/2 at s = −1 included.
TEST(Taylor, HasThePolynomialOfDegreeTwoForItsKernel) {
  for (const size_t d : {1u, 2u, 5u, 16u, 17u}) {
    std::vector<double> x(d), y(d);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RandomStream(seed, "x").FillNormal(0, x);
      RandomStream(seed, "y").FillNormal(0, y);
      double s = 0, kernel = 0;
      for (size_t i = 0; i < d; ++i) s += x[i] * y[i];
      if (seed == 0) {  // the minimum
        for (double& value : y) value *= -1 / s;
        s = -1;
      }
      const std::vector<double> phi_x = RowFactors("taylor", x), phi_y = RowFactors("taylor", y);
      EXPECT_EQ(phi_x.size(), 1 + d + d * (d + 1) / 2);
      for (size_t r = 0; r < phi_x.size(); ++r) kernel += phi_x[r] * phi_y[r];
      EXPECT_NEAR(kernel, 1 + s + s * s / 2, 1e-12 * (1 + s * s)) << d;
    }
  }
}

TEST(MapTable, HoldsEveryMapOfTheHouseOnce) {
  for (const char* name : {"positive",
                           "hyperbolic",
                           "trigonometric",
                           "regularized",
                           "oprf",
                           "gaussian-positive",
                           "gaussian-trigonometric",
                           "relu",
                           "sigmoid",
                           "exp",
                           "abs",
                           "gelu",
                           "cos",
                           "tanh",
                           "identity",
                           "elu",
                           "sgn",
                           "taylor",
                           "taylor1",
                           "poly-exact",
                           "poly-sum",
                           "poly-sketch"}) {
    ASSERT_NE(FindMap(name), nullptr) << name;
    EXPECT_EQ(&AllMaps()[static_cast<size_t>(FindMap(name)->index)], FindMap(name));
  }
  EXPECT_EQ(FindMap("positiv"), nullptr);
}

}  // namespace
}  // namespace favor::kernels
