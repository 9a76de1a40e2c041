// Every map of the table: derivatives, signs, closed forms, and f32 beside f64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/map_table.h"

namespace favor::kernels {
namespace {

const std::vector<double> kArguments = {-3.1, -1.7, -0.6, -0.11, 0.09, 0.4, 1.3, 2.9};

class EveryMap : public testing::TestWithParam<MapEntry> {
 protected:
  const MapTraits& traits() const { return *GetParam().traits; }
  double epsilon() const { return traits().info.default_epsilon.value_or(0); }

  // Exponents and factors at u, one lane, offset 0.3 and ‖x‖²/2 = 0.7 for all.
  template <class T>
  std::pair<std::vector<T>, std::vector<T>> Evaluate(const std::vector<T>& u) const {
    const std::vector<T> offset(u.size(), T(0.3));
    const T half_norm = T(0.7);
    const MapTile<T> tile{static_cast<int64_t>(u.size()), 1, u.data(), &half_norm, offset.data(),
                          static_cast<T>(epsilon())};
    const size_t width = u.size() * static_cast<size_t>(traits().info.parts);
    std::vector<T> exponents(width), factors(width);
    if constexpr (std::is_same_v<T, float>) {
      GetParam().evaluate_f32(tile, exponents.data(), factors.data());
    } else {
      GetParam().evaluate_f64(tile, exponents.data(), factors.data());
    }
    return {exponents, factors};
  }
};

TEST_P(EveryMap, HasTheDerivativeOfItsFormula) {
  const double step = 1e-6;
  std::vector<double> up = kArguments, down = kArguments;
  for (double& u : up) u += step;
  for (double& u : down) u -= step;
  const auto [exponents_up, factors_up] = Evaluate(up);
  const auto [exponents_down, factors_down] = Evaluate(down);
  const size_t count = kArguments.size(), width = exponents_up.size();
  // A different weight for every output, so that no two errors cancel.
  std::vector<double> grad_exponents(width), grad_factors(width), want(count, 0), got(count);
  for (size_t i = 0; i < width; ++i) {
    grad_exponents[i] = 1 + 0.1 * static_cast<double>(i);
    grad_factors[i] = 2 - 0.07 * static_cast<double>(i);
    want[i % count] += grad_exponents[i] * (exponents_up[i] - exponents_down[i]) / (2 * step) +
                       grad_factors[i] * (factors_up[i] - factors_down[i]) / (2 * step);
  }
  const MapTile<double> tile{
      static_cast<int64_t>(count), 1, kArguments.data(), nullptr, nullptr, epsilon()};
  GetParam().backward_f64(tile, grad_exponents.data(), grad_factors.data(), got.data());
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

TEST_P(EveryMap, AgreesInFloatAndDouble) {
  const auto [exponents, factors] = Evaluate(kArguments);
  const auto [exponents_f32, factors_f32] =
      Evaluate(std::vector<float>(kArguments.begin(), kArguments.end()));
  for (size_t i = 0; i < exponents.size(); ++i) {
    EXPECT_NEAR(exponents_f32[i], exponents[i], 2e-6);
    EXPECT_NEAR(factors_f32[i], factors[i], 2e-6);
  }
}

TEST_P(EveryMap, StaysFiniteForHugeArguments) {
  const auto [exponents, factors] = Evaluate(std::vector<float>{-3000, 3000});
  for (size_t i = 0; i < exponents.size(); ++i) {
    EXPECT_TRUE(std::isfinite(exponents[i]));
    EXPECT_TRUE(std::isfinite(factors[i]));
  }
}

// Mean and second moment of X against quadrature over the plane of x and y: closed forms of every
// map under χ norms. X = Σ_parts exp(E(u) + E(v)) g(u) g(v) · normaliser².
TEST_P(EveryMap, HasTheKernelAndVarianceOfItsFormula) {
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
        GetParam().evaluate_f64(tile, exponents, factors);
        for (int part = 0; part < parts; ++part) {
          x += std::exp(exponents[2 * part] + exponents[2 * part + 1]) * factors[2 * part] *
               factors[2 * part + 1];
        }
        x *= traits().normalizer * traits().normalizer *
             std::exp(traits().norm_slope * (pair.xx + pair.yy) / 2);
        return power == 1 ? x : x * x;
      });
    };
    if (traits().only_norm == OmegaNorm::kSqrtD) continue;  // measured in features/estimator_test
    ASSERT_TRUE(moments.mean && moments.second);
    EXPECT_NEAR(*moments.mean, moment(1), 1e-9 * (1 + std::fabs(*moments.mean)));
    EXPECT_NEAR(*moments.second, moment(2), 1e-8 * (1 + *moments.second));
  }
}

INSTANTIATE_TEST_SUITE_P(Maps, EveryMap, testing::ValuesIn(AllMaps().begin(), AllMaps().end()),
                         [](const auto& test) {
                           std::string name(test.param.traits->info.name);
                           std::erase(name, '-');
                           return name;
                         });

TEST(MapTable, HoldsEveryMapOfTheHouseOnce) {
  for (const char* name : {"positive", "hyperbolic", "trigonometric", "regularized", "oprf",
                           "gaussian-positive", "gaussian-trigonometric", "relu", "sigmoid", "exp",
                           "abs", "gelu", "cos", "tanh", "identity", "elu", "sgn"}) {
    ASSERT_NE(FindMap(name), nullptr) << name;
    EXPECT_EQ(&AllMaps()[static_cast<size_t>(FindMap(name)->index)], FindMap(name));
  }
  EXPECT_EQ(FindMap("positiv"), nullptr);
}

}  // namespace
}  // namespace favor::kernels
