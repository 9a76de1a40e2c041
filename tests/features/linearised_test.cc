// Linearised hidden units: the division of columns, errors, and the features against what they
// estimate.
#include "favor/linearised.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "favor/error.h"
#include "favor/random.h"

namespace favor {
namespace {

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }

Tensor RowsOf(const std::vector<std::vector<double>>& rows) {
  Tensor tensor({std::ssize(rows), std::ssize(rows[0])}, DataType::kF64);
  double* to = tensor.Data<double>();
  for (const auto& row : rows) to = std::ranges::copy(row, to).out;
  return tensor;
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.shape()[1]; ++i) sum += a.Data<double>()[i] * b.Data<double>()[i];
  return sum;
}

std::vector<double> Drawn(int64_t dim, double norm, const char* name) {
  std::vector<double> x(static_cast<size_t>(dim));
  RandomStream(3, name).FillNormal(0, x);
  double square = 0;
  for (const double one : x) square += one * one;
  for (double& one : x) one *= norm / std::sqrt(square);
  return x;
}

// Every division of twelve columns among three degrees.
TEST(Columns, ForATotalAreTheBestDivision) {
  const std::vector<double> costs = {0, 0, 9, 0.5, 0, 4};
  double best = 1e9;
  std::vector<int64_t> expected;
  for (int64_t a = 1; a <= 10; ++a) {
    for (int64_t b = 1; a + b <= 11; ++b) {
      const int64_t c = 12 - a - b;
      const double variance = 9.0 / static_cast<double>(a) + 0.5 / static_cast<double>(b) +
                              4.0 / static_cast<double>(c);
      if (variance >= best) continue;
      best = variance;
      expected = {0, 0, a, b, 0, c};
    }
  }
  EXPECT_EQ(ColumnsForTotal(costs, 12), expected);
}

// √v = 3, 1, 2 with the sum 6; a variance of 0.5: m = 36, 12, 24, and 9/36 + 1/12 + 4/24 = 0.5.
TEST(Columns, ForAVarianceByHand) {
  EXPECT_EQ(ColumnsForVariance(std::vector<double>{0, 0, 9, 1, 0, 4}, 0.5),
            (std::vector<int64_t>{0, 0, 36, 12, 0, 24}));
  EXPECT_EQ(ColumnsForVariance(std::vector<double>{0, 0, 9, 1, 0, 4}, 0.499)[2], 37);
}

// A coordinate of a uniform unit vector has E u² = 1/d and E u⁴ = 3/(d(d + 2)).
TEST(RandomInputs, HaveTheMomentsOfTheSphere) {
  for (const int64_t dim : {1, 2, 3, 16, 64, 513}) {
    const UnitInputs inputs = RandomInputs(dim, 2, 3);
    double second = 0, fourth = 0, third = 0;
    for (const double t : inputs.values) {
      const double u = t / 6, share = 1 / static_cast<double>(inputs.values.size());
      second += share * u * u;
      third += share * u * u * u;
      fourth += share * u * u * u * u;
    }
    const auto d = static_cast<double>(dim);
    EXPECT_NEAR(second * d, 1, 2e-3) << dim;
    EXPECT_NEAR(third, 0, 1e-9) << dim;
    EXPECT_NEAR(fourth * d * (d + 2) / 3, 1, 1e-2) << dim;
  }
}

// Least squares over values: the residual is orthogonal to every power.
TEST(FitToValues, LeavesAnOrthogonalResidual) {
  const std::vector<double> values = {-2, -1.5, -0.3, 0.1, 0.1, 1, 1.7, 4, 6};
  const Polynomial p = FitToValues(Gelu, values, 4);
  for (int power = 0; power <= 4; ++power) {
    double sum = 0;
    for (const double t : values) sum += std::pow(t, power) * (p(t) - Gelu(t));
    EXPECT_NEAR(sum, 0, 1e-10) << power;
  }
  const std::vector<double> few = {1, 2, 2, 3};
  EXPECT_THROW(FitToValues(Gelu, few, 3), Error);
  EXPECT_THROW(FitToValues(Gelu, std::vector<double>{1, 1}, 1), Error);
  EXPECT_THROW(FitToValues(Gelu, std::vector<double>{}, 1), Error);
}

// The formula for many columns, from four products of coordinates by hand: d = 2, k = 1 gives
// (a + c² − 2S2)/m.
TEST(SketchVariance, ByHand) {
  EXPECT_DOUBLE_EQ(SketchVariance({.a = 5, .c2 = 2, .s2 = 1.5}, 1), 5 + 2 - 2 * 1.5);
  EXPECT_DOUBLE_EQ(SketchVariance({.a = 1, .c2 = 1, .s2 = 0}, 2), 4 + 4 - 2);
  EXPECT_DOUBLE_EQ(LargestSketchVariance(2, 3), 26 * 8);
}

// The same as what the map says of itself, up to 1/m.
TEST(SketchVariance, IsThatOfTheMap) {
  const std::vector<double> x = Drawn(6, 1.3, "x"), y = Drawn(6, 0.8, "y");
  double xx = 0, yy = 0, xy = 0, s2 = 0;
  for (size_t i = 0; i < 6; ++i) {
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    xy += x[i] * y[i];
    s2 += x[i] * x[i] * y[i] * y[i];
  }
  for (const int degree : {2, 3, 5}) {
    const auto plan =
        FeaturePlan::Draw({.map = "poly-sketch", .features = 4096, .degree = degree}, 1, 6, 0);
    const double expected = SketchVariance({.a = xx * yy, .c2 = xy * xy, .s2 = s2}, degree);
    EXPECT_NEAR(4096 * plan.ExpectedMse(x, y).value(), expected, 5e-3 * expected) << degree;
  }
}

// Without random columns the product is the polynomial itself, on any interval.
TEST(LinearisedFeatures, OfDegreesOneAndTwoAreExact) {
  const Context context({.threads = 1});
  const std::vector<double> w = Drawn(5, 1.5, "w"), x = Drawn(5, 2, "x");
  double t = 0;
  for (size_t i = 0; i < 5; ++i) t += w[i] * x[i];
  for (const Interval interval : {Interval{-4, 4}, Interval{-1, 5}}) {
    for (const int degree : {1, 2}) {
      const Linearisation plan = LineariseForColumns(Gelu, RandomInputs(5, 1.5, 2),
                                                     {.degree = degree,
                                                      .exact_quadratic = true,
                                                      .fit = Fit::kChebyshev,
                                                      .interval = interval});
      const LinearisedFeatures features(plan, 0);
      const Tensor phi = features.OfWeights(RowsOf({w}), context),
                   psi = features.OfInputs(RowsOf({x}), context);
      EXPECT_EQ(phi.shape()[1], plan.Width());
      EXPECT_NEAR(Dot(phi, psi), plan.polynomial(t), 1e-12) << degree << " " << interval.low;
      EXPECT_EQ(plan.errors.variance, 0);
      EXPECT_EQ(features.Variance(w, x), 0);
      const int64_t dim = interval.low == -4 ? 5 : 6;
      EXPECT_EQ(plan.Width(), 1 + dim + (degree == 2 ? dim * (dim + 1) / 2 : 0));
    }
  }
}

struct Drawing {
  double mean, variance, mean_error, variance_error;  // with standard errors
};
Drawing Measure(const Linearisation& plan, const std::vector<double>& w,
                const std::vector<double>& x, int draws) {
  const Context context({.threads = 1});
  const Tensor left = RowsOf({w}), right = RowsOf({x});
  std::vector<double> values;
  for (int draw = 0; draw < draws; ++draw) {
    const LinearisedFeatures features(plan, static_cast<uint64_t>(draw));
    values.push_back(Dot(features.OfWeights(left, context), features.OfInputs(right, context)));
  }
  double mean = 0, second = 0, fourth = 0;
  for (const double v : values) mean += v / draws;
  for (const double v : values) {
    second += std::pow(v - mean, 2) / draws;
    fourth += std::pow(v - mean, 4) / draws;
  }
  return {mean, second, std::sqrt(second / draws), std::sqrt((fourth - second * second) / draws)};
}

// Degrees 2, 3 and 4 together: their variances add up only because their sketches are independent.
// Four standard errors: a right estimate fails once in 16,000 times.
TEST(LinearisedFeatures, AreUnbiasedWithTheVarianceOfTheFormula) {
  const std::vector<double> w = Drawn(8, 1, "w"), x = Drawn(8, 2, "x");
  double t = 0;
  for (size_t i = 0; i < 8; ++i) t += w[i] * x[i];
  for (const Interval interval : {Interval{-2, 2}, Interval{-1, 3}}) {
    const Linearisation plan = LineariseForColumns(
        [](double s) { return std::exp(s / 2); }, RandomInputs(8, 1, 2),
        {.degree = 4, .columns = 48, .fit = Fit::kChebyshev, .interval = interval});
    const Drawing drawing = Measure(plan, w, x, 4000);
    EXPECT_NEAR(drawing.mean, plan.polynomial(t), 4 * drawing.mean_error);
    const double variance = LinearisedFeatures(plan, 0).Variance(w, x);
    EXPECT_NEAR(drawing.variance, variance, 4 * drawing.variance_error);
    EXPECT_LT(drawing.variance_error, 0.1 * variance);
  }
}

// The target holds where it is hardest to reach: all weights along x, and both flat.
TEST(LineariseForError, MeetsItsTargetWhereItIsHardest) {
  const LinearisedTarget target{
      .error = 0.1, .units = 8, .dim = 8, .interval = {-2, 2}, .weight_norm = 1, .input_norm = 2};
  const Linearisation plan = LineariseForError(Gelu, target);
  EXPECT_LE(plan.errors.bias, 0.05);
  EXPECT_LE(plan.errors.variance, 0.05);
  EXPECT_GT(plan.errors.linear, 0.1);
  EXPECT_TRUE(plan.IsUsable());
  const Polynomial lower =
      FitPolynomial(Gelu, {-2, 2}, plan.polynomial.degree() - 1, Fit::kChebyshev);
  EXPECT_GT(8 * std::pow(LargestDifference(lower, Gelu, {-2, 2}), 2), 0.05);
  const std::vector<double> w(8, 1 / std::sqrt(8.0)), x(8, 2 / std::sqrt(8.0));
  const Drawing drawing = Measure(plan, w, x, 300);
  const double bias = std::pow(plan.polynomial(2.0) - Gelu(2), 2);
  EXPECT_LT(8 * (bias + drawing.variance + 4 * drawing.variance_error), 0.1);
}

// Random directions, ‖w‖‖x‖ = 4 in 16 dimensions: errors of the table in docs/lab.md, and what
// they follow from. A line is better than sketches of few columns; exact squares are better than
// both.
TEST(Linearisation, SaysWhenALineIsBetter) {
  const UnitInputs inputs = RandomInputs(64, 1, 8);
  const Linearisation sketched = LineariseForColumns(Gelu, inputs, {.degree = 2, .columns = 256}),
                      exact =
                          LineariseForColumns(Gelu, inputs, {.degree = 2, .exact_quadratic = true});
  EXPECT_FALSE(sketched.IsUsable());
  EXPECT_NE(sketched.Text().find("not usable here: "), std::string::npos);
  EXPECT_TRUE(exact.IsUsable());
  EXPECT_EQ(exact.Text().find("not usable"), std::string::npos);
  EXPECT_EQ(exact.Width(), 1 + 64 + 64 * 65 / 2);
  // The best line by the formula of a regression.
  double t2 = 0, g = 0, tg = 0, square = 0;
  const auto n = static_cast<double>(inputs.values.size());
  for (const double t : inputs.values) {
    t2 += t * t / n;
    g += Gelu(t) / n;
    tg += t * Gelu(t) / n;
  }
  for (const double t : inputs.values) square += std::pow(g + tg / t2 * t - Gelu(t), 2) / n;
  EXPECT_NEAR(exact.errors.linear, square, 1e-12);
  EXPECT_NEAR(sketched.DenseFlops(256, 64), 2.0 * 256 * 128, 1e-9);
  EXPECT_GT(sketched.Flops(64), 2.0 * 64 * static_cast<double>(sketched.Width()));
}

// GELU less t/2 is even: odd degrees above 1 take no columns.
TEST(Linearisation, GivesNoColumnsToDegreesThatAreNotThere) {
  const Linearisation plan = LineariseForColumns(
      Gelu, RandomInputs(16, 1, 4), {.degree = 6, .columns = 300, .fit = Fit::kLeastSquares});
  ASSERT_EQ(plan.columns.size(), 7u);
  EXPECT_EQ(plan.columns[3], 0);
  EXPECT_EQ(plan.columns[5], 0);
  EXPECT_GT(plan.columns[2], 0);
  EXPECT_EQ(plan.columns[2] + plan.columns[4] + plan.columns[6], 300);
}

void ExpectRefused(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST(Linearisation, RefusesWhatCannotBe) {
  const UnitInputs inputs = RandomInputs(16, 1, 4);
  const auto with = [&](const LinearisedOptions& options) {
    return [&inputs, options] { LineariseForColumns(Gelu, inputs, options); };
  };
  ExpectRefused(ErrorCode::kInvalidOption, with({.degree = 0}));
  ExpectRefused(ErrorCode::kInvalidOption, with({.degree = -2}));
  ExpectRefused(ErrorCode::kInvalidOption, with({.degree = 6, .columns = 2}));
  ExpectRefused(ErrorCode::kInvalidOption, with({.degree = 2, .columns = 0}));
  ExpectRefused(ErrorCode::kInvalidOption,
                with({.degree = 2, .columns = 9, .fit = Fit::kChebyshev, .interval = {{2, 2}}}));
  ExpectRefused(ErrorCode::kInvalidOption,
                with({.degree = 2, .columns = 9, .fit = Fit::kChebyshev, .interval = {{3, 2}}}));
  ExpectRefused(ErrorCode::kInvalidData, [&] {
    LineariseForColumns([](double t) { return std::log(t); }, inputs, {.degree = 2, .columns = 9});
  });
  ExpectRefused(ErrorCode::kInvalidData, [&] {
    LineariseForColumns(Gelu, {.dim = 4, .values = {}}, {.degree = 2, .columns = 9});
  });
  ExpectRefused(ErrorCode::kInvalidOption, [&] {
    LineariseForError(Gelu, {.error = 0, .interval = {-2, 2}});
  });
  ExpectRefused(ErrorCode::kInvalidOption, [&] {
    LineariseForError(Gelu, {.error = 1e-9, .interval = {-20, 20}, .fit = Fit::kBernstein});
  });
  const LinearisedFeatures features(LineariseForColumns(Gelu, inputs, {.degree = 2, .columns = 9}),
                                    0);
  ExpectRefused(ErrorCode::kInvalidData, [&] {
    features.OfInputs(Tensor({3, 15}, DataType::kF64), Context({.threads = 1}));
  });
}

}  // namespace
}  // namespace favor
