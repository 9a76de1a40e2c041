#include "favor/polynomial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "favor/error.h"

namespace favor {
namespace {

double Gelu(double t) { return t * std::erfc(-t / std::numbers::sqrt2) / 2; }
double Cubic(double t) { return 2 - t + 3 * t * t - 0.5 * t * t * t; }

TEST(Polynomial, IsEvaluatedInItsOwnVariable) {
  const Polynomial p({2, 6}, {1, 2, 3});  // u = (t − 4)/2
  EXPECT_DOUBLE_EQ(p(5.0), 1 + 2 * 0.5 + 3 * 0.25);
  EXPECT_DOUBLE_EQ(p(2.0), 1 - 2 + 3);
  EXPECT_EQ(p.degree(), 2);
  static_assert(std::is_same_v<decltype(p(1.0f)), float>);
  EXPECT_FLOAT_EQ(p(5.0f), 2.75f);
}

// Interpolation and least squares reproduce polynomials of their degree, on intervals anywhere.
TEST(FitPolynomial, ReproducesPolynomials) {
  for (const Interval interval : {Interval{-1, 1}, Interval{-3, 5}, Interval{6, 10}}) {
    for (const Fit fit : {Fit::kChebyshev, Fit::kLeastSquares}) {
      for (const int degree : {3, 5, 12}) {
        const Polynomial p = FitPolynomial(Cubic, interval, degree, fit);
        EXPECT_LT(LargestDifference(p, Cubic, interval), 1e-10)
            << Name(fit) << " " << degree << " from " << interval.low;
      }
    }
  }
}

// B_n of t² on [0, 1] is t² + t(1 − t)/n; linear functions are reproduced.
TEST(FitPolynomial, BernsteinOfASquareByHand) {
  const auto square = [](double t) { return t * t; };
  for (const int degree : {1, 2, 7, 40}) {
    const Polynomial p = FitPolynomial(square, {0, 1}, degree, Fit::kBernstein);
    for (const double t : {0.0, 0.2, 0.5, 0.9, 1.0}) {
      EXPECT_NEAR(p(t), t * t + t * (1 - t) / degree, 1e-12);
      EXPECT_NEAR(BernsteinValue(square, {0, 1}, degree, t), t * t + t * (1 - t) / degree, 1e-12);
    }
  }
  const auto line = [](double t) { return 3 - 2 * t; };
  EXPECT_LT(LargestDifference(FitPolynomial(line, {-1, 4}, 9, Fit::kBernstein), line, {-1, 4}),
            1e-13);
}

// The least mean square: no neighbour in the space of polynomials is better.
TEST(FitPolynomial, LeastSquaresIsAMinimum) {
  const auto mean_square = [](const Polynomial& p) {
    double sum = 0;
    for (int i = 0; i < 20000; ++i) {
      const double t = -4 + 8 * (i + 0.5) / 20000;
      sum += std::pow(p(t) - Gelu(t), 2) / 20000;
    }
    return sum;
  };
  const Polynomial best = FitPolynomial(Gelu, {-4, 4}, 6, Fit::kLeastSquares);
  const double least = mean_square(best);
  EXPECT_LT(least, mean_square(FitPolynomial(Gelu, {-4, 4}, 6, Fit::kChebyshev)));
  for (size_t k = 0; k <= 6; ++k) {
    for (const double step : {-1e-2, 1e-2}) {
      std::vector<double> moved = best.coefficients();
      moved[k] += step;
      EXPECT_GT(mean_square(Polynomial({-4, 4}, moved)), least) << k;
    }
  }
}

// Interpolation agrees with the function at its nodes.
TEST(FitPolynomial, ChebyshevInterpolates) {
  const Polynomial p = FitPolynomial(Gelu, {-3, 5}, 7, Fit::kChebyshev);
  for (int j = 0; j < 8; ++j) {
    const double t = 1 + 4 * std::cos(std::numbers::pi * (j + 0.5) / 8);
    EXPECT_NEAR(p(t), Gelu(t), 1e-12);
  }
}

// Degree 10 on [−4, 4] in floats; Bernstein within its bound up to degree 50, also where there is
// no second derivative.
TEST(FitPolynomial, ErrorsAreWithinTheirBounds) {
  const Interval wide{-4, 4};
  const Polynomial ten = FitPolynomial(Gelu, wide, 10, Fit::kChebyshev);
  EXPECT_LT(
      LargestDifference([&](double t) { return static_cast<double>(ten(static_cast<float>(t))); },
                        Gelu, wide),
      0.01);
  const auto relu = [](double t) { return std::max(t, 0.0); };
  const double curve = 2 / std::sqrt(2 * std::numbers::pi);
  for (int degree = 1; degree <= 50; ++degree) {
    const double error =
        LargestDifference(FitPolynomial(Gelu, wide, degree, Fit::kBernstein), Gelu, wide);
    EXPECT_LE(error, BernsteinBound(wide, degree, curve));
    EXPECT_LE(LargestDifference(FitPolynomial(relu, wide, degree, Fit::kBernstein), relu, wide),
              BernsteinBoundOfSlope(wide, degree, 1));
  }
  EXPECT_DOUBLE_EQ(BernsteinBound({-1, 3}, 10, 0.5), 16 * 0.5 / 80);
  EXPECT_DOUBLE_EQ(BernsteinBoundOfSlope({-1, 3}, 16, 2), 2 * 4 / 8.0);
}

TEST(FitPolynomial, RefusesWhatMakesNoSense) {
  const auto fails = [](const Function& function, const Interval& interval, int degree) {
    for (const Fit fit : {Fit::kBernstein, Fit::kChebyshev, Fit::kLeastSquares})
      EXPECT_THROW(FitPolynomial(function, interval, degree, fit), Error);
  };
  fails(Gelu, {-1, 1}, 0);
  fails(Gelu, {-1, 1}, -3);
  fails(Gelu, {-1, 1}, 65);
  fails(Gelu, {1, 1}, 3);
  fails(Gelu, {2, 1}, 3);
  fails(Gelu, {std::nan(""), 1}, 3);
  fails(Gelu, {-INFINITY, 1}, 3);
  fails([](double t) { return t > 0 ? std::nan("") : t; }, {-1, 1}, 3);
  fails([](double t) { return 1 / (t - t); }, {-1, 1}, 3);
  EXPECT_THROW(Polynomial({0, 1}, {}), Error);
  EXPECT_THROW(Polynomial({0, 1}, {1, std::nan("")}), Error);
}

}  // namespace
}  // namespace favor
