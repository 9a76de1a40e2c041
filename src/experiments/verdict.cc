#include "experiments/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace favor::experiments {

std::string Measured::ToText() const {
  if (!(standard_error > 0) || !std::isfinite(value)) return fmt::format("{:.4g}", value);
  // Two digits of the error, at its place, unless that would take many zeros.
  const int place = static_cast<int>(std::floor(std::log10(standard_error)));
  if (place < -5 || place > 3)
    return fmt::format("{:.{}e} ± {:.1e}", value,
                       std::clamp(static_cast<int>(std::floor(std::log10(
                                      std::max(std::fabs(value) / standard_error, 1.0)))) +
                                      1,
                                  1, 6),
                       standard_error);
  return fmt::format("{0:.{2}f} ± {1:.{2}f}", value, standard_error, std::max(0, 1 - place));
}

Measured Quotient(const Measured& a, const Measured& b) {
  const double value = a.value / b.value;
  return {value, std::hypot(a.standard_error, value * b.standard_error) / std::fabs(b.value),
          std::min(a.freedom, b.freedom)};
}

Measured Difference(const Measured& a, const Measured& b) {
  return {a.value - b.value, std::hypot(a.standard_error, b.standard_error),
          std::min(a.freedom, b.freedom)};
}

double Comparison::Z() const {
  const double difference = measured.value - expected;
  if (difference == 0) return 0;
  if (!(measured.standard_error > 0))
    return std::copysign(std::numeric_limits<double>::infinity(), difference);
  const double t = difference / measured.standard_error, freedom = measured.freedom;
  if (!std::isfinite(freedom)) return t;
  // Wallace's approximation of the normal quantile with the probability of Student's t.
  return std::copysign(
      (8 * freedom + 1) / (8 * freedom + 3) * std::sqrt(freedom * std::log1p(t * t / freedom)), t);
}

double Comparison::RelativeError() const {
  const double size = std::max(std::fabs(expected), std::fabs(measured.value));
  return size > 0 ? measured.standard_error / size : 0;
}

double Threshold(size_t figures) {
  const double outside = 1e-3 / static_cast<double>(std::max<size_t>(figures, 1));
  double low = 0, high = 40;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::numbers::sqrt2) > outside ? low : high) = middle;
  }
  return high;
}

std::string LargestZ(std::span<const Comparison> comparisons) {
  if (comparisons.empty()) return "no figure is certain enough";
  double largest = 0, coarsest = 0;
  for (const Comparison& comparison : comparisons) {
    largest = std::max(largest, std::fabs(comparison.Z()));
    coarsest = std::max(coarsest, comparison.RelativeError());
  }
  return fmt::format("{} figures with errors up to {:.2g} %, largest |z| {:.1f}, threshold {:.1f}",
                     comparisons.size(), 100 * coarsest, largest, Threshold(comparisons.size()));
}

std::string NearestToBound(std::span<const Comparison> comparisons, Bound bound) {
  if (comparisons.empty()) return "no figure is certain enough";
  const double sign = bound == Bound::kMost ? 1 : -1;
  const auto excess = [&](const Comparison& comparison) {
    const double difference = sign * (comparison.measured.value - comparison.expected);
    return comparison.expected != 0 ? difference / std::fabs(comparison.expected) : difference;
  };
  const auto worst = std::ranges::max_element(comparisons, {}, excess);
  return fmt::format("{} figure{}; {}{} where {} {:.4g} is claimed", comparisons.size(),
                     comparisons.size() == 1 ? "" : "s",
                     comparisons.size() == 1 ? "" : "the worst ", worst->measured.ToText(),
                     bound == Bound::kMost ? "at most" : "at least", worst->expected);
}

Verdict AllEqual(std::span<const Comparison> comparisons, double precision) {
  if (comparisons.empty()) return Verdict::kNotTested;
  const double threshold = Threshold(comparisons.size());
  Verdict verdict = Verdict::kHolds;
  for (const Comparison& comparison : comparisons) {
    const Measured& measured = comparison.measured;
    if (!std::isfinite(measured.value) || comparison.RelativeError() > precision) {
      verdict = Verdict::kNotTested;
      continue;
    }
    const bool equal = measured.standard_error > 0
                           ? std::fabs(comparison.Z()) <= threshold
                           : std::fabs(measured.value - comparison.expected) <=
                                 precision * std::fabs(comparison.expected);
    if (!equal) return Verdict::kFails;
  }
  return verdict;
}

Verdict AllAtMost(std::span<const Comparison> comparisons, double precision) {
  if (comparisons.empty()) return Verdict::kNotTested;
  const double threshold = Threshold(comparisons.size());
  Verdict verdict = Verdict::kHolds;
  for (const Comparison& comparison : comparisons) {
    const double z = comparison.Z(), error = comparison.measured.standard_error;
    if (z > threshold) return Verdict::kFails;
    const bool near = error > precision * std::fabs(comparison.expected) && z > -threshold;
    if (std::isnan(z) || near) verdict = Verdict::kNotTested;
  }
  return verdict;
}

Verdict AllAtLeast(std::span<const Comparison> comparisons, double precision) {
  std::vector<Comparison> turned(comparisons.begin(), comparisons.end());
  for (Comparison& comparison : turned) {
    comparison.measured.value = -comparison.measured.value;
    comparison.expected = -comparison.expected;
  }
  return AllAtMost(turned, precision);
}

}  // namespace favor::experiments
