#include "favor/polynomial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error_text.h"
#include "favor/error.h"

namespace favor {
namespace {

constexpr std::string_view kWho = "polynomial";
using Coefficients = std::vector<long double>;  // of powers of u

void CheckInterval(const Interval& interval) {
  if (!(interval.low < interval.high) || !std::isfinite(interval.high - interval.low))
    Throw(ErrorCode::kInvalidOption, kWho, "given the interval from {} to {}, expected low < high",
          interval.low, interval.high);
}

void CheckDegree(int degree, int most) {
  if (degree < 1 || degree > most)
    Throw(ErrorCode::kInvalidOption, kWho, "given degree {}, expected 1 to {}", degree, most);
}

// f(t), where it must be a number.
double ValueAt(const Function& function, double t) {
  const double value = function(t);
  if (!std::isfinite(value))
    Throw(ErrorCode::kInvalidData, kWho,
          "given a function that is {} at {}, expected a finite value", value, t);
  return value;
}

// f at u of the interval.
double ValueAtUnit(const Function& function, const Interval& interval, long double u) {
  return ValueAt(function, interval.Middle() + interval.Half() * static_cast<double>(u));
}

// a ← a + factor·b
void Add(const Coefficients& b, long double factor, Coefficients& a) {
  if (a.size() < b.size()) a.resize(b.size());
  for (size_t k = 0; k < b.size(); ++k) a[k] += factor * b[k];
}

Coefficients TimesU(const Coefficients& a) {
  Coefficients product(a.size() + 1);
  std::ranges::copy(a, product.begin() + 1);
  return product;
}

// Σ_k values_k P_k for polynomials with P_0 = 1, P_1 = u and
// P_{k+1} = first(k)·u·P_k − second(k)·P_{k−1}.
template <class First, class Second>
Coefficients SumOfRecurrence(const Coefficients& values, const First& first, const Second& second) {
  Coefficients before = {1}, current = {0, 1}, sum(values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    if (k == 0) {
      Add({1}, values[0], sum);
      continue;
    }
    Add(current, values[k], sum);
    Coefficients next(current.size() + 1);
    Add(TimesU(current), first(k), next);
    Add(before, -second(k), next);
    before = std::move(current);
    current = std::move(next);
  }
  return sum;
}

Coefficients Chebyshev(const Function& function, const Interval& interval, int degree) {
  const auto n = static_cast<size_t>(degree) + 1;
  Coefficients values(n);
  for (size_t j = 0; j < n; ++j) {
    const long double angle = std::numbers::pi_v<long double> *
                              (static_cast<long double>(j) + 0.5L) / static_cast<long double>(n);
    const double f = ValueAtUnit(function, interval, std::cos(angle));
    for (size_t k = 0; k < n; ++k)
      values[k] += (k == 0 ? 1 : 2) * static_cast<long double>(f) *
                   std::cos(static_cast<long double>(k) * angle) / static_cast<long double>(n);
  }
  return SumOfRecurrence(
      values, [](size_t) { return 2.0L; }, [](size_t) { return 1.0L; });
}

// Legendre's polynomials are orthogonal over the interval: coefficient k is (2k + 1)/2 ∫ f P_k, by
// Gauss's rule on many panels, so that a kink costs no more than its own panel.
Coefficients LeastSquares(const Function& function, const Interval& interval, int degree) {
  constexpr int kPanels = 1024;
  constexpr std::array<long double, 3> kNodes = {0, 0.538469310105683091036314L,
                                                 0.906179845938663992797627L};
  constexpr std::array<long double, 3> kWeights = {
      0.568888888888888888888889L, 0.478628670499366468041292L, 0.236926885056189087514264L};
  const auto n = static_cast<size_t>(degree) + 1;
  Coefficients values(n);
  std::vector<long double> p(n);
  const auto add = [&](long double u, long double weight) {
    const long double weighted =
        weight * static_cast<long double>(ValueAtUnit(function, interval, u));
    for (size_t k = 0; k < n; ++k) {
      const auto order = static_cast<long double>(k);
      p[k] = k == 0   ? 1
             : k == 1 ? u
                      : ((2 * order - 1) * u * p[k - 1] - (order - 1) * p[k - 2]) / order;
      values[k] += (2 * order + 1) / 2 * weighted * p[k];
    }
  };
  for (int panel = 0; panel < kPanels; ++panel) {
    const long double half = 1.0L / kPanels, middle = (2 * panel + 1) * half - 1;
    add(middle, kWeights[0] * half);
    for (const size_t node : {1u, 2u}) {
      add(middle - kNodes[node] * half, kWeights[node] * half);
      add(middle + kNodes[node] * half, kWeights[node] * half);
    }
  }
  const auto next = [](size_t k) { return static_cast<long double>(k + 1); };
  return SumOfRecurrence(
      values, [&](size_t k) { return (2 * next(k) - 1) / next(k); },
      [&](size_t k) { return (next(k) - 1) / next(k); });
}

// Σ_k f_k C(n, k) 2^{−n} (1 + u)^k (1 − u)^{n−k}. Multiplied out for all k at once by de
// Casteljau's scheme: every step is a mean of two neighbours with weights (1 ± u)/2.
Coefficients Bernstein(const Function& function, const Interval& interval, int degree) {
  std::vector<Coefficients> row;
  for (int k = 0; k <= degree; ++k)
    row.push_back(
        {static_cast<long double>(ValueAtUnit(function, interval, 2.0L * k / degree - 1))});
  for (int left = degree; left > 0; --left) {
    for (size_t k = 0; k < static_cast<size_t>(left); ++k) {
      Coefficients sum(row[k].size() + 1), difference = row[k + 1];
      Add(row[k], -1, difference);
      Add(row[k], 0.5L, sum);
      Add(row[k + 1], 0.5L, sum);
      Add(TimesU(difference), 0.5L, sum);
      row[k] = std::move(sum);
    }
  }
  return row[0];
}

}  // namespace

Polynomial::Polynomial(const Interval& interval, std::vector<double> coefficients)
    : interval_(interval), coefficients_(std::move(coefficients)) {
  CheckInterval(interval_);
  if (coefficients_.empty() || coefficients_.size() > kMaxDegree + 1)
    Throw(ErrorCode::kInvalidOption, kWho, "given {} coefficients, expected 1 to {}",
          coefficients_.size(), kMaxDegree + 1);
  if (!std::ranges::all_of(coefficients_, [](double c) { return std::isfinite(c); }))
    Throw(ErrorCode::kInvalidData, kWho, "given coefficients that are not finite");
}

Polynomial FitPolynomial(const Function& function, const Interval& interval, int degree, Fit fit) {
  CheckInterval(interval);
  CheckDegree(degree, Polynomial::kMaxDegree);
  const Coefficients coefficients = fit == Fit::kBernstein ? Bernstein(function, interval, degree)
                                    : fit == Fit::kChebyshev
                                        ? Chebyshev(function, interval, degree)
                                        : LeastSquares(function, interval, degree);
  return {interval, {coefficients.begin(), coefficients.end()}};
}

// Polynomials that are orthogonal over the values, by Stieltjes's recurrence
// P_{k+1} = (u − ⟨u P_k, P_k⟩/⟨P_k, P_k⟩) P_k − ⟨P_k, P_k⟩/⟨P_{k−1}, P_{k−1}⟩ P_{k−1}.
Polynomial FitToValues(const Function& function, std::span<const double> values, int degree) {
  CheckDegree(degree, Polynomial::kMaxDegree);
  const auto refuse = [&] {
    Throw(ErrorCode::kInvalidData, kWho, "given {} values, expected {} different ones or more",
          values.size(), degree + 1);
  };
  if (values.empty() || !std::ranges::all_of(values, [](double t) { return std::isfinite(t); }))
    refuse();
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) refuse();
  const Interval interval{least, most};
  const size_t n = values.size();
  std::vector<long double> u(n), f(n), before(n), current(n, 1);
  for (size_t i = 0; i < n; ++i) {
    u[i] = (values[i] - interval.Middle()) / interval.Half();
    f[i] = ValueAt(function, values[i]);
  }
  Coefficients sum(static_cast<size_t>(degree) + 1), powers_before, powers = {1};
  long double norm_before = 1;
  for (int k = 0; k <= degree; ++k) {
    long double norm = 0, inner = 0, moment = 0;
    for (size_t i = 0; i < n; ++i) {
      norm += current[i] * current[i];
      inner += f[i] * current[i];
      moment += u[i] * current[i] * current[i];
    }
    if (norm <= 1e-24L * norm_before) refuse();  // rounding: the values are roots of P_k
    Add(powers, inner / norm, sum);
    const long double mean = moment / norm, ratio = k == 0 ? 0 : norm / norm_before;
    Coefficients powers_next = TimesU(powers);
    Add(powers, -mean, powers_next);
    Add(powers_before, -ratio, powers_next);
    for (size_t i = 0; i < n; ++i)
      before[i] = std::exchange(current[i], (u[i] - mean) * current[i] - ratio * before[i]);
    powers_before = std::exchange(powers, std::move(powers_next));
    norm_before = norm;
  }
  return {interval, {sum.begin(), sum.end()}};
}

double BernsteinValue(const Function& function, const Interval& interval, int degree, double t) {
  CheckInterval(interval);
  CheckDegree(degree, 1'000'000);
  const double theta = std::clamp((t - interval.low) / (interval.high - interval.low), 0.0, 1.0);
  const auto at = [&](int k) {
    return ValueAt(function, interval.low + (interval.high - interval.low) * k / degree);
  };
  if (theta == 0) return at(0);
  if (theta == 1) return at(degree);
  // Binomial probabilities, from their logarithms; those below e^{−60} do not count.
  const double n = degree, log_theta = std::log(theta), log_rest = std::log1p(-theta);
  double sum = 0;
  for (int k = 0; k <= degree; ++k) {
    const double log_weight = std::lgamma(n + 1) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1) +
                              k * log_theta + (n - k) * log_rest;
    if (log_weight > -60) sum += std::exp(log_weight) * at(k);
  }
  return sum;
}

double LargestDifference(const Function& a, const Function& b, const Interval& interval) {
  constexpr int kSteps = 4096;
  double largest = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double t = interval.low + (interval.high - interval.low) * i / kSteps;
    largest = std::max(largest, std::fabs(a(t) - b(t)));
  }
  return largest;
}

double BernsteinBound(const Interval& interval, int degree, double largest_second_derivative) {
  const double length = interval.high - interval.low;
  return length * length * largest_second_derivative / (8.0 * degree);
}

double BernsteinBoundOfSlope(const Interval& interval, int degree, double largest_slope) {
  return largest_slope * (interval.high - interval.low) / (2 * std::sqrt(degree));
}

}  // namespace favor
