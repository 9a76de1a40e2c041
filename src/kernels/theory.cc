#include "kernels/theory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace favor::kernels {
namespace {

// An alternating sum loses about 2|w|/ln 10 digits; long double has 19.
constexpr double kMostNegative = -15;
constexpr int kMaxTerms = 100000;

struct GaussLegendre {
  std::vector<double> nodes, weights;  // on [−1, 1]
};

// Newton's method on the Legendre polynomial P_n, from the usual cosine guess.
GaussLegendre MakeGaussLegendre(int n) {
  GaussLegendre rule;
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::numbers::pi * (i + 0.75) / (n + 0.5));
    double derivative = 1;
    for (int iteration = 0; iteration < 100; ++iteration) {
      double previous = 1, current = x;
      for (int k = 2; k <= n; ++k) {
        const double next = ((2 * k - 1) * x * current - (k - 1) * previous) / k;
        previous = current;
        current = next;
      }
      derivative = n * (x * current - previous) / (x * x - 1);
      const double step = current / derivative;
      x -= step;
      if (std::fabs(step) < 1e-16) break;
    }
    rule.nodes.push_back(x);
    rule.weights.push_back(2 / ((1 - x * x) * derivative * derivative));
  }
  return rule;
}

// e^{log_scale}·value: a tiny scale times a huge mean may fit in a double even if neither of the
// two does. Exponents of long doubles reach far enough for both.
std::optional<double> Times(double log_scale, std::optional<long double> value) {
  if (!value) return std::nullopt;
  return static_cast<double>(std::exp(static_cast<long double>(log_scale)) * *value);
}

// E e^{ω·z} and E e^{(ω₁+ω₂)·z} under the law, as functions of w.
std::optional<long double> SingleMean(double w, const Law& law) {
  return law.norm == OmegaNorm::kChi ? std::optional(std::exp(static_cast<long double>(w)))
                                     : SphericalMean(w, law.omega_dim);
}
std::optional<long double> CrossMean(double w, const Law& law) {
  return law.norm == OmegaNorm::kChi ? std::optional(OrthogonalChiMean(w, law.omega_dim))
                                     : SphericalMean(2 * w, law.omega_dim);
}

}  // namespace

double Angle(const Pair& pair) {
  const double product = std::sqrt(pair.xx * pair.yy);
  return product > 0 ? std::acos(std::clamp(pair.xy / product, -1.0, 1.0)) : std::numbers::pi / 2;
}

std::optional<long double> SphericalMean(double w, int64_t dim) {
  if (w < kMostNegative) return std::nullopt;
  const auto d = static_cast<long double>(dim);
  long double term = 1, sum = 1;
  for (int k = 1; k < kMaxTerms; ++k) {
    term *= static_cast<long double>(w) / k * d / (d + 2 * k - 2);
    sum += term;
    if (std::fabs(term) < 1e-21L * std::fabs(sum)) break;
  }
  return sum;
}

// ω₁ + ω₂ has a uniform direction and a squared length of law χ²(2d), so the mean is 1F1(d; d/2;
// w). For w < 0 Kummer's transformation e^w·1F1(−d/2; d/2; −w) keeps every term of the sum at or
// below 1.
long double OrthogonalChiMean(double w, int64_t dim) {
  const long double half = static_cast<long double>(dim) / 2;
  const long double a = w >= 0 ? 2 * half : -half, x = std::fabs(static_cast<long double>(w));
  long double term = w >= 0 ? 1 : std::exp(-x), sum = term;
  for (int k = 0; k < kMaxTerms; ++k) {
    term *= (a + k) / (half + k) * x / (k + 1);
    sum += term;
    if (k > 2 * x && std::fabs(term) < 1e-22L * std::fabs(sum)) break;
  }
  return sum;
}

Moments ExponentialMoments(double log_scale, double w, const Law& law) {
  return {.mean = Times(log_scale, SingleMean(w, law)),
          .second = Times(2 * log_scale, SingleMean(4 * w, law)),
          .cross = Times(2 * log_scale, CrossMean(w, law))};
}

// X = scale · (e^{ω·z} + e^{−ω·z})/2, or its cosine: X² = scale²·(1 + [e^{2ω·z} + e^{−2ω·z}]/2)/2.
// The sign of a row of a Haar block is free, so two rows give the same cross moment as plain
// exponentials.
Moments EvenMoments(double log_scale, double w, const Law& law) {
  std::optional<long double> second = SingleMean(4 * w, law);
  if (second) second = (1 + *second) / 2;
  return {.mean = Times(log_scale, SingleMean(w, law)),
          .second = Times(2 * log_scale, second),
          .cross = Times(2 * log_scale, CrossMean(w, law))};
}

double BivariateMean(const Pair& pair, const std::function<double(double, double)>& h) {
  static const GaussLegendre rule = MakeGaussLegendre(24);
  constexpr double kRadius = 12;  // e^{−72} of the mass lies beyond
  constexpr int kRadialPanels = 8;
  const double s = std::sqrt(pair.xx), t = std::sqrt(pair.yy);
  const double theta = Angle(pair);

  // u = s·ρ cos α and v = t·ρ cos(α − θ) change sign at four angles.
  constexpr double kPi = std::numbers::pi;
  std::array<double, 6> cuts{
      -kPi, -kPi / 2, theta - kPi / 2, kPi / 2, std::remainder(theta + kPi / 2, 2 * kPi), kPi};
  std::ranges::sort(cuts);
  double total = 0;
  for (size_t piece = 0; piece + 1 < cuts.size(); ++piece) {
    const double middle = (cuts[piece] + cuts[piece + 1]) / 2,
                 half = (cuts[piece + 1] - cuts[piece]) / 2;
    if (half < 1e-15) continue;
    for (size_t i = 0; i < rule.nodes.size(); ++i) {
      const double angle = middle + half * rule.nodes[i];
      const double u = s * std::cos(angle), v = t * std::cos(angle - theta);
      double ray = 0;
      for (int panel = 0; panel < kRadialPanels; ++panel) {
        const double width = kRadius / kRadialPanels / 2;
        for (size_t j = 0; j < rule.nodes.size(); ++j) {
          const double radius = width * (2 * panel + 1 + rule.nodes[j]);
          ray += rule.weights[j] * width * radius * std::exp(-radius * radius / 2) *
                 h(u * radius, v * radius);
        }
      }
      total += rule.weights[i] * half * ray;
    }
  }
  return total / (2 * kPi);
}

}  // namespace favor::kernels
