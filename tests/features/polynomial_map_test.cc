// The maps poly-exact, poly-sum and poly-sketch: their kernels, their exact errors by enumeration
// of all that can be drawn, their fast forms and their gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/simd.h"
#include "favor/error.h"
#include "favor/features.h"
#include "favor/random.h"
#include "features/drawn_features.h"

namespace favor {
namespace {

using Row = std::vector<double>;

Row RandomRow(int64_t dim, double deviation, uint64_t seed) {
  Row row(static_cast<size_t>(dim));
  RandomStream(seed, "row").FillNormal(0, row);
  for (double& value : row) value *= deviation;
  return row;
}

double Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row Phi(const FeaturePlan& plan, const Row& x, FeatureRole role = FeatureRole::kQuery) {
  const Tensor phi =
      Features(plan, ConstView(x.data(), {1, static_cast<int64_t>(x.size())}), Context(), role);
  return {phi.Data<double>(), phi.Data<double>() + plan.width()};
}

double Estimate(const FeaturePlan& plan, const Row& x, const Row& y) {
  return Dot(Phi(plan, x), Phi(plan, y, FeatureRole::kKey));
}

// Calls body(table) for all tables of `size` entries whose values are `values`.
void ForAllTables(const std::vector<int32_t>& values, int64_t size,
                  const std::function<void(const std::vector<int32_t>&)>& body) {
  std::vector<size_t> digits(static_cast<size_t>(size), 0);
  std::vector<int32_t> table(digits.size(), values[0]);
  while (true) {
    body(table);
    size_t at = 0;
    while (at < digits.size() && ++digits[at] == values.size()) {
      digits[at] = 0;
      table[at++] = values[0];
    }
    if (at == digits.size()) return;
    table[at] = values[digits[at]];
  }
}

struct Case {
  std::string map;
  int64_t dim, degree, columns;
};

class EveryTable : public testing::TestWithParam<Case> {};

// All tables are equally likely: the mean over them is the expectation, without sampling.
TEST_P(EveryTable, GivesTheKernelInTheMeanAndTheErrorThatIsExpected) {
  const std::string& map = GetParam().map;
  const int64_t dim = GetParam().dim, degree = GetParam().degree, columns = GetParam().columns;
  const FeatureOptions options{.map = map, .features = columns, .degree = degree};
  const bool sum = map == "poly-sum";
  std::vector<int32_t> values;
  for (int32_t v = 0; v < (sum ? dim : columns); ++v) {
    values.push_back(sum ? v : v + 1);
    if (!sum) values.push_back(-(v + 1));
  }
  const Row x = RandomRow(dim, 0.8, 1), y = RandomRow(dim, 0.8, 2);
  const double kernel = std::pow(Dot(x, y), static_cast<double>(degree));
  double mean = 0, square = 0, count = 0;
  ForAllTables(values, degree * (sum ? columns : dim), [&](const std::vector<int32_t>& table) {
    const double error =
        Estimate(features::PlanWithTables(options, 1, dim, {table}), x, y) - kernel;
    mean += error;
    square += error * error;
    ++count;
  });
  EXPECT_NEAR(mean / count, 0, 1e-12);
  const FeaturePlan plan = FeaturePlan::Draw(options, 1, dim, 1);
  EXPECT_EQ(plan.width(), columns);
  EXPECT_NEAR(*plan.Kernel(x, y), kernel, 1e-12);
  const double mse = square / count;
  EXPECT_NEAR(*plan.ExpectedMse(x, y), mse, 1e-9 * mse);
  EXPECT_NEAR(*plan.ErrorProbability(x, y, 2 * std::sqrt(mse)), 0.25, 1e-9);
  EXPECT_EQ(*plan.ErrorProbability(x, y, std::sqrt(mse) / 2), 1);
}

INSTANTIATE_TEST_SUITE_P(Polynomials, EveryTable,
                         testing::Values(Case{"poly-sum", 3, 3, 1}, Case{"poly-sum", 3, 2, 2},
                                         Case{"poly-sum", 2, 4, 2}, Case{"poly-sum", 5, 2, 1},
                                         Case{"poly-sketch", 2, 2, 1}, Case{"poly-sketch", 2, 2, 2},
                                         Case{"poly-sketch", 2, 2, 3}, Case{"poly-sketch", 2, 2, 4},
                                         Case{"poly-sketch", 3, 2, 2}, Case{"poly-sketch", 2, 3, 2},
                                         Case{"poly-sketch", 2, 2, 5}),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return (c.map == "poly-sum" ? "sum" : "sketch") + std::string("_dim") +
                                  std::to_string(c.dim) + "_degree" + std::to_string(c.degree) +
                                  "_columns" + std::to_string(c.columns);
                         });

// 4000 draws; bounds of 4 standard errors, those of the squares measured too.
class DrawnPolynomial : public testing::TestWithParam<std::tuple<std::string, int64_t, bool>> {};

TEST_P(DrawnPolynomial, IsUnbiasedWithTheErrorThatIsExpected) {
  const auto& [map, degree, rotate] = GetParam();
  constexpr int64_t kDim = 12, kColumns = 40;
  constexpr int kDraws = 4000;
  const FeatureOptions options{
      .map = map, .features = kColumns, .degree = degree, .rotate = rotate};
  const Row x = RandomRow(kDim, 0.3, 1);
  Row y = RandomRow(kDim, 0.3, 2);
  for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  double mean = 0, square = 0, fourth = 0;
  const double kernel = std::pow(Dot(x, y), static_cast<double>(degree));
  for (int draw = 0; draw < kDraws; ++draw) {
    const double error =
        Estimate(FeaturePlan::Draw(options, 1, kDim, static_cast<uint64_t>(draw)), x, y) - kernel;
    mean += error / kDraws;
    square += error * error / kDraws;
    fourth += std::pow(error, 4) / kDraws;
  }
  EXPECT_LT(std::fabs(mean), 4 * std::sqrt(square / kDraws));
  const auto expected = FeaturePlan::Draw(options, 1, kDim, 1).ExpectedMse(x, y);
  ASSERT_EQ(expected.has_value(), !rotate);
  if (expected) {
    EXPECT_LT(std::fabs(square - *expected), 4 * std::sqrt((fourth - square * square) / kDraws));
  }
}

// With one element nothing is left to chance: the error is 0, not a rounding below it.
TEST(PolySketch, IsExactForRowsOfOneElement) {
  const FeaturePlan plan =
      FeaturePlan::Draw({.map = "poly-sketch", .features = 3, .degree = 4}, 1, 1, 1);
  const Row x = {0.3}, y = {-0.7};
  EXPECT_NEAR(Estimate(plan, x, y), std::pow(0.21, 4), 1e-15);
  EXPECT_GE(*plan.ExpectedMse(x, y), 0);
  EXPECT_LT(*plan.ExpectedMse(x, y), 1e-15);
}

INSTANTIATE_TEST_SUITE_P(
    Polynomials, DrawnPolynomial,
    testing::Values(std::tuple{"poly-sum", 2, false}, std::tuple{"poly-sum", 4, false},
                    std::tuple{"poly-sum", 3, true}, std::tuple{"poly-sketch", 2, false},
                    std::tuple{"poly-sketch", 3, false}, std::tuple{"poly-sketch", 5, false}),
    [](const auto& test) {
      return (std::get<0>(test.param) == "poly-sum" ? "sum" : "sketch") + std::string("_degree") +
             std::to_string(std::get<1>(test.param)) + (std::get<2>(test.param) ? "_rotated" : "");
    });

// The error of a weighted sum is Σ c_k² MSE_k only if degrees share nothing that is drawn.
TEST(WeightedPolynomial, DrawsItsDegreesIndependently) {
  for (const std::string map : {"poly-sum", "poly-sketch"}) {
    const FeatureOptions options{
        .map = map, .features = 20, .coefficients = {0.3, -1, 0.5, -0.7, 0, 0.2}};
    const Row x = RandomRow(6, 0.5, 3), y = RandomRow(6, 0.5, 4);
    const double s = Dot(x, y);
    const double kernel = 0.3 - s + 0.5 * s * s - 0.7 * s * s * s + 0.2 * std::pow(s, 5);
    const FeaturePlan one = FeaturePlan::Draw(options, 1, 6, 1);
    EXPECT_EQ(one.width(), 1 + 6 + 20);
    EXPECT_NEAR(*one.Kernel(x, y), kernel, 1e-12);
    double mean = 0, square = 0, fourth = 0;
    constexpr int kDraws = 6000;
    for (int draw = 0; draw < kDraws; ++draw) {
      const double error =
          Estimate(FeaturePlan::Draw(options, 1, 6, static_cast<uint64_t>(draw)), x, y) - kernel;
      mean += error / kDraws;
      square += error * error / kDraws;
      fourth += std::pow(error, 4) / kDraws;
    }
    EXPECT_LT(std::fabs(mean), 4 * std::sqrt(square / kDraws)) << map;
    EXPECT_LT(std::fabs(square - *one.ExpectedMse(x, y)),
              4 * std::sqrt((fourth - square * square) / kDraws))
        << map;
  }
}

// |c_k|√(3^k − 1) of degrees 2 and 4 is 2·√8 and 1·√80: 0.3874 and 0.6126 of what is left after one
// column each.
TEST(WeightedPolynomial, SharesItsColumnsByTheVarianceOfItsDegrees) {
  const auto constants = [](int64_t columns) {
    return FeaturePlan::Draw(
        {.map = "poly-sum", .features = columns, .coefficients = {0, 0, -2, 0, 1}}, 1, 5, 1);
  };
  for (const auto& [columns, second, fourth] :
       {std::tuple{2, 1, 1}, std::tuple{3, 1, 2}, std::tuple{102, 40, 62}}) {
    const FeaturePlan plan = constants(columns);
    const auto& blocks = features::ConstantsOf(plan).polynomial().blocks;
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(blocks[0].degree, 2);
    EXPECT_EQ(blocks[0].columns, second);
    EXPECT_EQ(blocks[1].degree, 4);
    EXPECT_EQ(blocks[1].columns, fourth);
    EXPECT_EQ(plan.width(), columns);
  }
}

TEST(PolyExact, HasThePolynomialForItsKernelWhateverItsSigns) {
  for (const auto& coefficients : {Row{1, 1, 0.5}, Row{0, 0, 0, 1}, Row{0.5, 0, -2, 0, 3},
                                   Row{-1, 2}, Row{0, 0, 0, 0, 0, -1}, Row{2, -1, 0.25, -0.125}}) {
    for (const int64_t dim : {1, 2, 3, 7}) {
      const FeaturePlan plan =
          FeaturePlan::Draw({.map = "poly-exact", .coefficients = coefficients}, 1, dim, 1);
      const Row x = RandomRow(dim, 1, 5), y = RandomRow(dim, 1, 6);
      double kernel = 0, width = 0, monomials = 1;
      for (size_t k = 0; k < coefficients.size(); ++k) {
        kernel += coefficients[k] * std::pow(Dot(x, y), static_cast<double>(k));
        if (coefficients[k] != 0) width += monomials;
        monomials = monomials * static_cast<double>(dim + static_cast<int64_t>(k)) /
                    static_cast<double>(k + 1);
      }
      EXPECT_EQ(static_cast<double>(plan.width()), width);
      EXPECT_NEAR(Estimate(plan, x, y), kernel, 1e-10 * (1 + std::fabs(kernel)));
      EXPECT_NEAR(*plan.Kernel(x, y), kernel, 1e-12 * (1 + std::fabs(kernel)));
      EXPECT_EQ(*plan.ExpectedMse(x, y), 0);
    }
  }
}

// x = (2, 3, 5): monomials i, i + s, i + t by (s, t), each √(number of its orders) times.
TEST(PolyExact, OrdersMonomialsByThePatternOfTheirPlaces) {
  const Row phi = Phi(FeaturePlan::Draw({.map = "poly-exact", .degree = 3}, 1, 3, 1), {2, 3, 5});
  const double r3 = std::sqrt(3.0), r6 = std::sqrt(6.0);
  const Row want = {8,       27,      125,  // (0, 0)
                    12 * r3, 45 * r3,       // (0, 1)
                    20 * r3,                // (0, 2)
                    18 * r3, 75 * r3,       // (1, 1)
                    30 * r6,                // (1, 2)
                    50 * r3};               // (2, 2)
  ASSERT_EQ(phi.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(phi[i], want[i], 1e-12) << i;
}

// By hand: indices [k, m] and buckets [k, dim].
TEST(PolySum, IsAProductOfTheDrawnPlaces) {
  const FeatureOptions options{.map = "poly-sum", .features = 2, .degree = 3};
  const auto plan = features::PlanWithTables(options, 1, 3, {{0, 1, 2, 1, 0, 2}});
  const Row phi = Phi(plan, {2, 3, 5});
  EXPECT_NEAR(phi[0], std::sqrt(27.0 / 2) * 2 * 5 * 2, 1e-12);
  EXPECT_NEAR(phi[1], std::sqrt(27.0 / 2) * 3 * 3 * 5, 1e-12);
}

TEST(PolySketch, IsTheConvolutionOfTheDrawnSketches) {
  const FeatureOptions options{.map = "poly-sketch", .features = 3, .degree = 2};
  // Buckets 0, 2, 2 with signs +, −, + and 1, 1, 0 with signs +, +, −.
  const auto plan = features::PlanWithTables(options, 1, 3, {{1, -3, 3, 2, 2, -1}});
  const Row phi = Phi(plan, {2, 3, 5});  // [2, 0, 2] and [−5, 5, 0]
  const Row want = {2 * -5 + 2 * 5, 2 * 5, 2 * -5};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(phi[i], want[i], 1e-12) << i;
}

TEST(PolySum, RotationKeepsProductsOfRows) {
  const FeatureOptions options{.map = "poly-sum", .features = 8, .degree = 2, .rotate = true};
  // All 8 places of both factors in turn: with every pair of places the mean over them is s².
  const Row x = RandomRow(6, 1, 7), y = RandomRow(6, 1, 8);
  double mean = 0;
  for (int32_t first = 0; first < 8; ++first) {
    std::vector<int32_t> table;
    for (int32_t j = 0; j < 8; ++j) table.push_back(first);
    for (int32_t j = 0; j < 8; ++j) table.push_back(j);
    for (const int32_t sign : {1, -1, -1, 1, -1, 1, 1, -1}) table.push_back(sign);
    mean += Estimate(features::PlanWithTables(options, 1, 6, {table}), x, y) / 8;
  }
  EXPECT_NEAR(mean, Dot(x, y) * Dot(x, y), 1e-6);
}

struct FastCase {
  FeatureOptions options;
  int64_t dim, rows;
};

class FastPolynomial : public testing::TestWithParam<int> {
 protected:
  static const std::vector<FastCase>& Cases() {
    static const std::vector<FastCase> cases = {
        {{.map = "poly-exact", .degree = 3}, 9, 5},
        {{.map = "poly-exact", .coefficients = {1, 0, -0.5, 0.25, 0.1}}, 5, 19},
        {{.map = "poly-exact", .degree = 2}, 17, 3},
        {{.map = "poly-exact", .coefficients = {2, -1}}, 33, 2},
        {{.map = "poly-sum", .features = 37, .degree = 3}, 13, 7},
        {{.map = "poly-sum", .features = 64, .coefficients = {1, 1, -0.5, 0.3}, .rotate = true},
         21,
         33},
        {{.map = "poly-sketch", .features = 16, .degree = 2}, 5, 1},
        {{.map = "poly-sketch", .features = 256, .degree = 2}, 64, 40},
        {{.map = "poly-sketch", .features = 64, .degree = 5}, 12, 17},
        {{.map = "poly-sketch", .features = 8, .degree = 3}, 3, 16},
        {{.map = "poly-sketch", .features = 100, .degree = 2}, 7, 9},
        {{.map = "poly-sketch", .features = 4, .degree = 4}, 7, 2},
        {{.map = "poly-sketch", .features = 96, .coefficients = {1, -1, 0.5, 0.2}}, 16, 21}};
    return cases;
  }
};

TEST_P(FastPolynomial, IsTheReferenceOnEverySimdTarget) {
  const auto& [options, dim, rows] = Cases()[static_cast<size_t>(GetParam())];
  constexpr int64_t kHeads = 2;
  const FeaturePlan plan = FeaturePlan::Draw(options, kHeads, dim, 3);
  const Shape in{kHeads, rows, dim}, out = in.WithLast(plan.width());
  Tensor x(in), grad(out), x64(in, DataType::kF64), grad64(out, DataType::kF64);
  for (int64_t i = 0; i < in.Elements(); ++i)
    x.Data<float>()[i] = static_cast<float>(std::sin(1.3 * static_cast<double>(i) + 1));
  for (int64_t i = 0; i < out.Elements(); ++i)
    grad.Data<float>()[i] = static_cast<float>(std::cos(0.7 * static_cast<double>(i)));
  Copy(x.view(), x64.view());
  Copy(grad.view(), grad64.view());
  const Context context;
  for (const FeatureRole role : {FeatureRole::kQuery, FeatureRole::kKey}) {
    Tensor exponents(out, DataType::kF64), factors(out, DataType::kF64), back(in, DataType::kF64);
    FeatureExponents(plan, x64, context, exponents, factors, role);
    FeatureExponentsBackward(plan, x64, grad64, grad64, context, back, role);
    double largest = 0, largest_back = 0;
    for (int64_t i = 0; i < out.Elements(); ++i)
      largest = std::max(largest, std::fabs(factors.Data<double>()[i]));
    for (int64_t i = 0; i < in.Elements(); ++i)
      largest_back = std::max(largest_back, std::fabs(back.Data<double>()[i]));
    for (const std::string& simd : SimdNames()) {
      UseSimd(simd);
      Tensor fast_exponents(out), fast(out), fast_back(in);
      FeatureExponents(plan, x, context, fast_exponents, fast, role);
      FeatureExponentsBackward(plan, x, grad, grad, context, fast_back, role);
      for (int64_t i = 0; i < out.Elements(); ++i) {
        ASSERT_EQ(fast_exponents.Data<float>()[i], 0);
        ASSERT_NEAR(fast.Data<float>()[i], factors.Data<double>()[i], 2e-6 * largest)
            << simd << " " << i;
      }
      for (int64_t i = 0; i < in.Elements(); ++i)
        ASSERT_NEAR(fast_back.Data<float>()[i], back.Data<double>()[i], 1e-5 * largest_back)
            << simd << " " << i;
    }
    UseSimd(SimdNames().front());
    // Differences of the reference.
    for (const int64_t at : {int64_t{0}, in.Elements() / 2, in.Elements() - 1}) {
      double want = 0;
      constexpr double kStep = 1e-5;
      for (const double sign : {1.0, -1.0}) {
        Tensor moved = x64.Clone(), phi(out, DataType::kF64);
        moved.Data<double>()[at] += sign * kStep;
        FeatureExponents(plan, moved, context, exponents, phi, role);
        for (int64_t i = 0; i < out.Elements(); ++i)
          want += sign * phi.Data<double>()[i] * grad64.Data<double>()[i] / (2 * kStep);
      }
      EXPECT_NEAR(back.Data<double>()[at], want, 1e-6 * largest_back) << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Polynomials, FastPolynomial, testing::Range(0, 13));

// Heads have tables of their own, the first one that of a plan of one head.
TEST(PolynomialPlan, DrawsATableForEachHeadUnlessTheyShareOne) {
  const Row x = RandomRow(10, 1, 9);
  Row twice = x;
  twice.insert(twice.end(), x.begin(), x.end());
  for (const std::string map : {"poly-sum", "poly-sketch"}) {
    FeatureOptions options{.map = map, .features = 32, .degree = 3};
    const auto phi = [&](int64_t heads, uint64_t seed, uint64_t redraw = 0) {
      const FeaturePlan plan = FeaturePlan::Draw(options, heads, 10, seed, redraw);
      const Tensor all = Features(plan, ConstView(twice.data(), {heads, 1, 10}), Context());
      return Row(all.Data<double>(), all.Data<double>() + all.shape().Elements());
    };
    const Row own = phi(2, 1), one = phi(1, 1);
    EXPECT_EQ(Row(own.begin(), own.begin() + 32), one);
    EXPECT_NE(Row(own.begin() + 32, own.end()), one);
    EXPECT_NE(phi(1, 2), one);
    EXPECT_NE(phi(1, 1, 1), one);
    options.shared_omega = true;
    const Row shared = phi(2, 1);
    EXPECT_EQ(Row(shared.begin(), shared.begin() + 32), one);
    EXPECT_EQ(Row(shared.begin() + 32, shared.end()), one);
  }
}

TEST(PolynomialPlan, RefusesWhatNoPolynomialIs) {
  const auto refuses = [](const FeatureOptions& options, int64_t dim, const std::string& what) {
    try {
      FeaturePlan::Draw(options, 1, dim, 1);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidOption);
      EXPECT_EQ(error.what(), what);
    }
  };
  refuses({.map = "poly-sum", .degree = 0}, 4, "degree: given 0, expected 1 to 16");
  refuses({.map = "poly-exact", .degree = -3}, 4, "degree: given -3, expected 1 to 16");
  refuses({.map = "poly-sketch", .degree = 17}, 4, "degree: given 17, expected 1 to 16");
  refuses({.map = "relu", .degree = 3}, 4, "degree: given 3, but the map 'relu' takes none");
  refuses({.map = "taylor", .degree = 3}, 4, "degree: given 3, but the map 'taylor' takes none");
  refuses({.map = "positive", .coefficients = {1, 1}}, 4,
          "coefficients: given 2, but the map 'positive' takes none");
  refuses({.map = "poly-sum", .features = 1, .coefficients = {0, 0, 1, 1}}, 4,
          "features: given 1 for the map 'poly-sum' with 2 random degrees, expected at least as "
          "many");
  refuses({.map = "poly-sum", .coefficients = {1}}, 4,
          "coefficients: given 1, expected 2 to 17: those of degrees 0, 1, …");
  refuses({.map = "poly-sum", .coefficients = {1, 2, 0}}, 4,
          "coefficients: given 0 for the highest degree 2, expected another number");
  refuses({.map = "poly-sum", .coefficients = {1, NAN}}, 4,
          "coefficients: given nan, expected numbers up to 1e+06");
  refuses({.map = "poly-sketch", .rotate = true}, 4,
          "rotate: given for the map 'poly-sketch', expected poly-sum");
  refuses({.map = "poly-exact", .degree = 4}, 64,
          "dim: given 64 for the map 'poly-exact', which makes 766480 features of it, expected at "
          "most 32768");
  refuses({.map = "poly-sketch", .features = 1 << 16}, 4,
          "dim: given 4 for the map 'poly-sketch', which makes 65536 features of it, expected at "
          "most 32768");
}

TEST(PolynomialPlan, RefusesErrorsThatAreNotPositive) {
  const FeaturePlan plan = FeaturePlan::Draw({.map = "poly-sum"}, 1, 2, 1);
  const Row x = {1, 2};
  EXPECT_THROW(plan.ErrorProbability(x, x, 0), Error);
  EXPECT_THROW(plan.ErrorProbability(x, x, NAN), Error);
}

}  // namespace
}  // namespace favor
