#include "kernels/theory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/map_table.h"
#include "kernels/maps/elu.h"

namespace favor::kernels {
namespace {

double Spherical(double w, int64_t dim) { return static_cast<double>(*SphericalMean(w, dim)); }
double OrthogonalChi(double w, int64_t dim) {
  return static_cast<double>(OrthogonalChiMean(w, dim));
}

TEST(SphericalMean, IsKnownInLowDimensions) {
  // d = 1: cosh z; d = 3: sinh(ρ)/ρ with ρ = √3 z; w = z²/2. Negative w: cos and sin.
  for (const double z : {0.1, 1.0, 2.5}) {
    const double rho = std::sqrt(3) * z;
    EXPECT_NEAR(Spherical(z * z / 2, 1), std::cosh(z), 1e-13 * std::cosh(z));
    EXPECT_NEAR(Spherical(z * z / 2, 3), std::sinh(rho) / rho, 1e-12 * std::sinh(rho));
    EXPECT_NEAR(Spherical(-z * z / 2, 1), std::cos(z), 1e-13);
    EXPECT_NEAR(Spherical(-z * z / 2, 3), std::sin(rho) / rho, 1e-13);
  }
}

TEST(SphericalMean, ApproachesTheExponentialLikeOneMinusWSquaredOverD) {
  EXPECT_NEAR(Spherical(2, 512) / std::exp(2.0), 0.99233, 5e-6);
  for (const double w : {0.5, 1.0, 2.0}) {
    const double gap = 1 - Spherical(w, 100000) / std::exp(w);
    EXPECT_NEAR(gap * 100000, w * w, 1e-3 * w * w + 1e-3);
  }
}

TEST(SphericalMean, SaysWhenTheSumCancels) { EXPECT_FALSE(SphericalMean(-40, 16).has_value()); }

// The double series of Theorem 2: Σ_{j,k} w^j/j! · w^k/k! · Π_{i<k} (d+2i)/(d+2j+2i).
double DoubleSeries(double w, double d) {
  long double sum = 0, outer = 1;
  for (int j = 0; j < 120; ++j) {
    long double inner = 1;
    for (int k = 0; k < 120; ++k) {
      sum += outer * inner;
      inner *= static_cast<long double>(w) / (k + 1) * (d + 2 * k) / (d + 2 * j + 2 * k);
    }
    outer *= static_cast<long double>(w) / (j + 1);
  }
  return static_cast<double>(sum);
}

TEST(OrthogonalChiMean, EqualsTheDoubleSeries) {
  for (const int64_t d : {2, 3, 8, 64}) {
    for (const double w : {-3.0, -0.5, 0.0, 0.02, 0.5, 2.0, 5.0}) {
      const double want = DoubleSeries(w, static_cast<double>(d));
      EXPECT_NEAR(OrthogonalChi(w, d), want, 1e-11 * std::fabs(want) + 1e-14) << d << " " << w;
    }
  }
}

TEST(OrthogonalChiMean, IsBelowTheIndependentMeanByTheCorrectedGap) {
  // E e^{ω₁·z}E e^{ω₂·z} − E e^{(ω₁+ω₂)·z} ≥ 2/(d+2)·(e^w − 1)², tight as w → 0.
  for (const int64_t d : {4, 8, 64}) {
    for (const double w : {0.01, 0.5, 2.0}) {
      const double gap = std::exp(2 * w) - OrthogonalChi(w, d);
      const double bound = 2.0 / static_cast<double>(d + 2) * std::expm1(w) * std::expm1(w);
      EXPECT_GE(gap, bound);
      if (w == 0.01) {
        EXPECT_NEAR(gap / bound, 1, 0.01);
      }
    }
  }
}

TEST(BivariateMean, IntegratesKnownFunctions) {
  for (const Pair pair : {Pair{1, 1, 0.3}, Pair{0.25, 4, -0.7}, Pair{2, 0.5, 1.0}, Pair{1, 0, 0}}) {
    EXPECT_NEAR(BivariateMean(pair, [](double, double) { return 1.0; }), 1, 1e-13);
    EXPECT_NEAR(BivariateMean(pair, [](double u, double v) { return u * v; }), pair.xy, 1e-12);
    EXPECT_NEAR(BivariateMean(pair, [](double u, double v) { return u * u * v * v; }),
                pair.xx * pair.yy + 2 * pair.xy * pair.xy, 1e-11);
    // E |u| = s√(2/π): a kink.
    EXPECT_NEAR(BivariateMean(pair, [](double u, double) { return std::fabs(u); }),
                std::sqrt(pair.xx * 2 / std::numbers::pi), 1e-12);
  }
  // A jump: P(u > 0, v > 0) = (π − θ)/(2π).
  const Pair pair{1, 4, 1};
  EXPECT_NEAR(BivariateMean(pair, [](double u, double v) { return u > 0 && v > 0 ? 1.0 : 0.0; }),
              (std::numbers::pi - std::acos(0.5)) / (2 * std::numbers::pi), 1e-12);
}

// Long vectors: a scale below and a mean above the range of doubles have a product within it.
TEST(Theory, MomentsOfLongVectorsAreFinite) {
  const Law law{.dim = 8, .omega_dim = 8, .norm = OmegaNorm::kChi};
  const Pair pair{900, 900, 300};
  for (const char* name : {"positive", "hyperbolic", "oprf", "trigonometric"}) {
    const Moments moments = FindMap(name)->theory(pair, law);
    ASSERT_TRUE(moments.mean.has_value()) << name;
    EXPECT_NEAR(*moments.mean / std::exp(300.0), 1, 1e-12) << name;
  }
  // E X² = e^{−‖x‖²−‖y‖²+2‖x+y‖²} for the positive map.
  const Moments near = FindMap("positive")->theory({100, 100, 99.99}, law);
  EXPECT_NEAR(*near.second / std::exp(599.96), 1, 1e-10);
}

TEST(Theory, MomentsOfCosinesAreThoseOfManyDraws) {
  // Against a sum over a fine grid of one dimension, x = (s, 0), y = (0, t): u and v independent.
  const Law law{.dim = 2, .omega_dim = 2, .norm = OmegaNorm::kChi, .epsilon = 0.25};
  const auto mean = [](double s, auto function) {
    double sum = 0;
    constexpr int kSteps = 200000;
    for (int i = 0; i <= kSteps; ++i) {
      const double g = -10 + 20.0 * i / kSteps;
      sum += function(std::cos(s * g) + 0.25) * std::exp(-g * g / 2) * 20 / kSteps;
    }
    return sum / std::sqrt(2 * std::numbers::pi);
  };
  for (const double s : {0.3, 3.0, 10.0}) {
    for (const double t : {1.0, 10.0}) {
      const Moments moments = FindMap("cos")->theory({s * s, t * t, 0}, law);
      const auto line = [](double x) { return x; };
      const auto square = [](double x) { return x * x; };
      EXPECT_NEAR(*moments.mean, mean(s, line) * mean(t, line), 1e-9);
      EXPECT_NEAR(*moments.second, mean(s, square) * mean(t, square), 1e-9);
    }
  }
  // Dependent: x = y.
  const Moments same = FindMap("cos")->theory({4, 4, 4}, law);
  EXPECT_NEAR(*same.mean, mean(2, [](double x) { return x * x; }), 1e-9);
  EXPECT_NEAR(*same.second, mean(2, [](double x) { return x * x * x * x; }), 1e-9);
}

// A vector of length 0 has no direction: the signs of its products are 0, and so is their mean.
TEST(Theory, AZeroVectorIsAtRightAnglesToAll) {
  EXPECT_EQ(Angle({0, 4, 0}), std::numbers::pi / 2);
  const Law law{.dim = 2, .omega_dim = 2, .norm = OmegaNorm::kChi};
  for (const char* name : {"sgn", "abs", "relu"})
    EXPECT_EQ(FindMap(name)->theory({0, 4, 0}, law).mean, 0) << name;
}

TEST(Theory, TheMeanOfEluHasNoSeam) {
  EXPECT_NEAR(Elu::Mean(24.999) / Elu::Mean(25.001), 24.999 / 25.001, 1e-5);
  EXPECT_NEAR(Elu::Mean(24.9999999), Elu::Mean(25.0000001), 1e-6);
  EXPECT_TRUE(std::isfinite(Elu::Mean(1000)));
}

}  // namespace
}  // namespace favor::kernels
