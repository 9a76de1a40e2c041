// Masks of distances: transforms against integration and closed forms, and the maps made of them.
#include "favor/local_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>
#include <vector>

#include "experiments/estimate.h"
#include "favor/error.h"
#include "favor/features.h"

namespace favor {
namespace {

// ∫ over [0, end] by Gauss–Legendre of 5 points on 60 pieces.
double Integral(const std::function<double(double)>& function, double end) {
  constexpr double kNodes[] = {0, 0.5384693101056831, 0.9061798459386640};
  constexpr double kWeights[] = {0.5688888888888889, 0.4786286704993665, 0.2369268850561891};
  constexpr int kPieces = 60;
  double sum = 0;
  for (int piece = 0; piece < kPieces; ++piece) {
    const double half = end / kPieces / 2, middle = (2 * piece + 1) * half;
    sum += half * kWeights[0] * function(middle);
    for (int i = 1; i < 3; ++i)
      sum += half * kWeights[i] *
             (function(middle - half * kNodes[i]) + function(middle + half * kNodes[i]));
  }
  return sum;
}

// ∫ Π cos(w_j u_j) over u ≥ 0, Σu ≤ room.
double Simplex(std::span<const double> w, double room) {
  if (w.size() == 1) return w[0] == 0 ? room : std::sin(w[0] * room) / w[0];
  return Integral([&](double u) { return std::cos(w[0] * u) * Simplex(w.subspan(1), room - u); },
                  room);
}

TEST(L1Ball, IsTheIntegralOverTheBall) {
  const std::vector<std::vector<double>> all = {
      {0},       {1e-6},    {0.7},        {-12},        {40},          {0, 0},      {3, 3},
      {3, -3},   {0, 5},    {2, 2.0001},  {17, 1},      {30, 30},      {0, 0, 0},   {4, 4, 4},
      {4, 0, 4}, {1, 2, 3}, {20, 20, 19}, {1e-8, 3, 3}, {-7, 0.5, 11}, {0, 0, 25.5}};
  for (const std::vector<double>& w : all) {
    const double volume = std::tgamma(static_cast<double>(w.size()) + 1);
    EXPECT_NEAR(L1BallTransform(w), volume * Simplex(w, 1), 1e-8) << w.size() << " " << w[0];
  }
}

TEST(L1Ball, HasItsClosedFormsInManyDimensions) {
  for (const size_t d : {1u, 2u, 5u, 7u, 8u, 9u, 16u, 33u, 64u}) {
    std::vector<double> w(d, 0.0);
    EXPECT_NEAR(L1BallTransform(w), 1, d == 8 ? 1e-9 : 1e-10) << d;
    // One frequency: the first element of u has the density d(1 − u)^{d−1}.
    for (const double one : {0.3, 5.0, 24.0}) {
      w[d / 2] = one;
      const auto n = static_cast<double>(d);
      const double want =
          Integral([&](double u) { return n * std::pow(1 - u, n - 1) * std::cos(one * u); }, 1);
      EXPECT_NEAR(L1BallTransform(w), want, 2e-9) << d << " " << one;
    }
  }
  // All equal: by partial fractions of distinct neighbours, which must lie on either side.
  std::vector<double> equal(12, 2.0), lower(12), upper(12);
  for (size_t i = 0; i < 12; ++i) {
    lower[i] = 2 - 1e-5 * static_cast<double>(i);
    upper[i] = 2 + 1e-5 * static_cast<double>(i);
  }
  EXPECT_NEAR(L1BallTransform(equal), (L1BallTransform(lower) + L1BallTransform(upper)) / 2, 1e-8);
}

TEST(L1Ball, RefusesWhatIsNotAFrequency) {
  EXPECT_THROW(L1BallTransform({}), Error);
  const double bad[] = {1, NAN}, far[] = {1e7};
  EXPECT_THROW(L1BallTransform(far), Error);
  EXPECT_THROW(DirichletWeight(int64_t{1} << 20), Error);
  EXPECT_THROW(L1BallTransform(bad), Error);
  EXPECT_THROW(BallWeight(0, 1, 1), Error);
  EXPECT_THROW(BallWeight(2, 0, 1), Error);
  EXPECT_THROW(BallWeight(2, 1, -1), Error);
  EXPECT_THROW(DirichletWeight(-1), Error);
}

// volume/((2π)^{d/2}σ^d): an interval of length 2 and a square of area 2.
TEST(L1Ball, WeightsByHand) {
  EXPECT_NEAR(BallWeight(1, 1, 0.5), 2 / (std::sqrt(2 * std::numbers::pi) * 0.5), 1e-12);
  EXPECT_NEAR(BallWeight(2, 1, 0.5), 2 / (2 * std::numbers::pi * 0.25), 1e-12);
  EXPECT_NEAR(BallWeight(4, 1, 0.25), 4.3, 0.05);
}

TEST(Dirichlet, IsTheMaskOfPlaces) {
  for (const int64_t window : {0, 1, 5, 16}) {
    // Between the zeros 2πk/(2w + 1) it has one sign.
    double z = 0, before = 0;
    for (int64_t k = 1; k <= window + 1; ++k) {
      const double end = std::min(std::numbers::pi, 2 * std::numbers::pi * static_cast<double>(k) /
                                                        static_cast<double>(2 * window + 1));
      const double now = Integral([&](double f) { return DirichletKernel(window, f); }, end);
      z += std::fabs(now - before) / std::numbers::pi;
      before = now;
    }
    EXPECT_NEAR(DirichletWeight(window), z, 1e-9) << window;
    for (int64_t distance = 0; distance <= 20; ++distance) {
      const double mask =
          Integral(
              [&](double f) {
                return DirichletKernel(window, f) * std::cos(static_cast<double>(distance) * f);
              },
              std::numbers::pi) /
          std::numbers::pi;
      EXPECT_NEAR(mask, distance <= window ? 1 : 0, 1e-9) << window << " " << distance;
    }
  }
  EXPECT_NEAR(DirichletWeight(16), 2.41, 0.005);
}

double Normal(double t) { return std::erfc(-t / std::numbers::sqrt2) / 2; }

// The smoothed ball in one dimension, and in two, where it is a square turned by 45°.
TEST(LocalBall, IsUnbiased) {
  const Context context({.seed = 3});
  const double width = 0.9, smoothing = 0.4;
  const auto between = [&](double half, double t) {
    return Normal((half - t) / smoothing) - Normal((-half - t) / smoothing);
  };
  const std::vector<experiments::VectorPair> pairs = {{{0.3}, {0.1}},
                                                      {{0.5}, {-0.4}},
                                                      {{-0.6}, {0.6}},
                                                      {{0.3, -0.2}, {0.1, 0.4}},
                                                      {{0.5, 0.5}, {-0.2, -0.1}}};
  for (const experiments::VectorPair& pair : pairs) {
    const FeatureOptions options{
        .map = "local-ball", .features = 16, .local_width = width, .local_smoothing = smoothing};
    double mask = between(width, pair.x[0] - pair.y[0]);
    if (pair.x.size() == 2) {
      const double a = pair.x[0] - pair.y[0], b = pair.x[1] - pair.y[1];
      mask = between(width / std::numbers::sqrt2, (a + b) / std::numbers::sqrt2) *
             between(width / std::numbers::sqrt2, (a - b) / std::numbers::sqrt2);
    }
    const experiments::Measured mean =
        experiments::MeasureEstimator(options, pair, {20000, 1}, context).mean;
    EXPECT_NEAR(mean.value, std::exp(pair.Dot()) * mask, 4 * mean.standard_error) << mask;
    EXPECT_LT(mean.standard_error, 0.02);
  }
}

// Kernels by hand: exp(x·y − ‖x−y‖₁/δ) and exp(x·y − ‖x−y‖²/(2δ²)).
TEST(LocalMaps, HaveTheirKernels) {
  const std::vector<double> x = {0.5, -0.25}, y = {0.25, 0.5};
  const double dot = 0, l1 = 1, square = 0.0625 + 0.5625;
  EXPECT_NEAR(*FeaturePlan::Draw({.map = "local-laplace", .local_width = 2}, 1, 2, 0).Kernel(x, y),
              std::exp(dot - l1 / 2), 1e-12);
  EXPECT_NEAR(*FeaturePlan::Draw({.map = "local-gaussian", .local_width = 2}, 1, 2, 0).Kernel(x, y),
              std::exp(dot - square / 8), 1e-12);
  EXPECT_FALSE(FeaturePlan::Draw({.map = "local-ball"}, 1, 2, 0).Kernel(x, y).has_value());
}

TEST(LocalMaps, RefuseWhatTheyCannotMean) {
  const auto draw = [](const FeatureOptions& options, int64_t dim = 4) {
    return FeaturePlan::Draw(options, 1, dim, 0);
  };
  EXPECT_THROW(draw({.map = "local-laplace", .local_width = 0}), Error);
  EXPECT_THROW(draw({.map = "local-laplace", .local_width = -1}), Error);
  EXPECT_THROW(draw({.map = "local-gaussian", .local_width = NAN}), Error);
  EXPECT_THROW(draw({.map = "positive", .local_width = 2}), Error);
  EXPECT_THROW(draw({.map = "local-laplace", .local_smoothing = 1}), Error);
  EXPECT_THROW(draw({.map = "local-ball", .local_smoothing = -1}), Error);
  EXPECT_THROW(draw({.map = "local-laplace", .omega_norm = OmegaNorm::kSqrtD}), Error);
  EXPECT_THROW(draw({.map = "local-laplace", .projection = "none"}), Error);
  EXPECT_THROW(draw({.map = "local-ball"}, 64), Error);  // weights of 10^21
  EXPECT_THROW(draw({.map = "local-ball", .local_width = 1e5, .local_smoothing = 0.001}, 1), Error);
  const Tensor odd({3, 4});
  EXPECT_THROW(FeaturePlan::WithOmega({.map = "local-laplace"}, 1, odd), Error);
}

// A plan with the ω of another is that plan, weights included.
TEST(LocalMaps, AreMadeAgainFromTheirOmega) {
  for (const char* map : {"local-laplace", "local-ball", "local-gaussian"}) {
    const FeatureOptions options{.map = map, .features = 6, .local_width = 1.5};
    const FeaturePlan plan = FeaturePlan::Draw(options, 2, 3, 4),
                      again = FeaturePlan::WithOmega(options, 2, plan.Omega());
    EXPECT_EQ(plan.Omega().shape()[1], std::string_view(map) == "local-gaussian" ? 6 : 12);
    EXPECT_EQ(plan.features(), 6);
    EXPECT_EQ(plan.width(), std::string_view(map) == "local-gaussian" ? 6 : 12);
    Tensor x({2, 5, 3});
    for (int64_t i = 0; i < 30; ++i) x.Data<float>()[i] = 0.1f * static_cast<float>(i % 7 - 3);
    for (const FeatureRole role : {FeatureRole::kQuery, FeatureRole::kKey}) {
      const Tensor a = Features(plan, x, Context(), role), b = Features(again, x, Context(), role);
      for (int64_t i = 0; i < a.shape().Elements(); ++i)
        EXPECT_EQ(a.Data<double>()[i], b.Data<double>()[i]) << map;
    }
  }
}

}  // namespace
}  // namespace favor
