#include "favor/local_mask.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "core/error_text.h"

namespace favor {
namespace {

constexpr size_t kLeastBromwichDim = 8;
constexpr double kLargest = 1e6;  // frequencies: the matrix exponential takes as many steps
constexpr int64_t kWidestWindow = 10'000;  // a weight takes the square of it

// Φ is the response at time 1 of a chain of oscillators: states p_j, s_j and z with p_j' = −w_j s_j
// + c·p_{j−1}, s_j' = w_j p_j, z' = c·p_d, c = (d!)^{1/d}, from p_1 = 1: z(1) = Φ. The exponential
// of the (2d+1)² matrix acts on one vector, in steps in which its Taylor series is short.
double ByMatrixExponential(std::span<const double> w) {
  const size_t d = w.size();
  const double c = std::exp(std::lgamma(static_cast<double>(d) + 1) / static_cast<double>(d));
  double norm = c;
  for (const double one : w) norm = std::max(norm, std::fabs(one) + c);
  const auto steps = static_cast<int64_t>(std::ceil(norm));
  const double h = 1 / static_cast<double>(steps);
  std::vector<double> state(2 * d + 1, 0.0), term, next(2 * d + 1);
  state[0] = 1;  // p_1; p_j and s_j at 2j and 2j + 1, z last
  for (int64_t step = 0; step < steps; ++step) {
    term = state;
    for (int k = 1; k <= 24; ++k) {
      const double factor = h / k;
      for (size_t j = 0; j < d; ++j) {
        const double input = j == 0 ? 0 : c * term[2 * j - 2];
        next[2 * j] = factor * (input - w[j] * term[2 * j + 1]);
        next[2 * j + 1] = factor * w[j] * term[2 * j];
      }
      next[2 * d] = factor * c * term[2 * d - 2];
      std::swap(term, next);
      for (size_t i = 0; i < state.size(); ++i) state[i] += term[i];
    }
  }
  return state[2 * d];
}

// Φ = L⁻¹[d! s^{d−1}/Π(s² + w_j²)](1) on the line Re s = d + 1, by the trapezoidal rule.
double ByBromwichQuadrature(std::span<const double> w) {
  using Complex = std::complex<double>;
  const auto d = static_cast<double>(w.size());
  const double log_factorial = std::lgamma(d + 1), h = 2 * std::numbers::pi / 4;
  const double last = (d + 1) * std::sqrt(std::pow(1e16, 2 / (d + 1)) - 1);
  double sum = 0;
  for (int64_t n = 0; static_cast<double>(n) * h <= last; ++n) {
    const Complex s(d + 1, static_cast<double>(n) * h);
    Complex log_g = log_factorial + s + (d - 1) * std::log(s);
    for (const double one : w) log_g -= std::log(s * s + one * one);
    sum += (n == 0 ? 0.5 : 1.0) * std::exp(log_g).real();
  }
  return h / std::numbers::pi * sum;
}

}  // namespace

double L1BallTransform(std::span<const double> w) {
  if (w.empty())
    Throw(ErrorCode::kInvalidOption, "ball", "given no frequencies, expected one per dimension");
  for (const double one : w) {
    if (!(std::fabs(one) <= kLargest))
      Throw(ErrorCode::kInvalidOption, "ball", "given the frequency {}, expected at most {}", one,
            kLargest);
  }
  return w.size() < kLeastBromwichDim ? ByMatrixExponential(w) : ByBromwichQuadrature(w);
}

double BallWeight(int64_t dim, double width, double smoothing) {
  if (dim < 1 || !(width > 0) || !(smoothing > 0))
    Throw(ErrorCode::kInvalidOption, "ball",
          "given {} dimensions, width {} and smoothing {}, expected numbers above 0", dim, width,
          smoothing);
  const auto d = static_cast<double>(dim);
  return std::exp(d * std::log(2 * width) - std::lgamma(d + 1) -
                  d / 2 * std::log(2 * std::numbers::pi) - d * std::log(smoothing));
}

double DirichletKernel(int64_t window, double frequency) {
  const double sine = std::sin(frequency / 2);
  if (std::fabs(sine) < 1e-9) return 2 * static_cast<double>(window) + 1;
  return std::sin((static_cast<double>(window) + 0.5) * frequency) / sine;
}

double DirichletWeight(int64_t window) {
  if (window < 0 || window > kWidestWindow)
    Throw(ErrorCode::kInvalidOption, "window", "given {}, expected 0 to {}", window, kWidestWindow);
  // Between its zeros 2πk/(2w + 1), D has one sign: its integral is that of 1 + 2Σ cos(nf).
  const auto integral = [&](double f) {
    double sum = f;
    for (int64_t n = 1; n <= window; ++n)
      sum += 2 * std::sin(static_cast<double>(n) * f) / static_cast<double>(n);
    return sum;
  };
  double total = 0, before = 0;
  for (int64_t k = 1; k <= window + 1; ++k) {
    const double zero = std::min(std::numbers::pi, 2 * std::numbers::pi * static_cast<double>(k) /
                                                       (2 * static_cast<double>(window) + 1));
    const double now = integral(zero);
    total += std::fabs(now - before);
    before = now;
  }
  return total / std::numbers::pi;
}

}  // namespace favor
