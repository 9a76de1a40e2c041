#include "favor/linearised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error_text.h"
#include "favor/error.h"

namespace favor {
namespace {

constexpr std::string_view kWho = "linearised";
// Coefficients below this share of the largest are rounding: an even function has no odd degrees.
constexpr double kNegligible = 1e-12;

double MeanSquareError(const Polynomial& polynomial, const Function& function,
                       std::span<const double> values) {
  double sum = 0;
  for (const double t : values) {
    const double value = function(t);
    if (!std::isfinite(value))
      Throw(ErrorCode::kInvalidData, kWho,
            "given a function that is {} at {}, expected a finite value", value, t);
    sum += std::pow(polynomial(t) - value, 2);
  }
  return sum / static_cast<double>(values.size());
}

bool IsRandom(const Linearisation& plan, size_t degree) {
  const std::vector<double>& c = plan.polynomial.coefficients();
  const double largest = std::fabs(
      *std::ranges::max_element(c, [](double a, double b) { return std::fabs(a) < std::fabs(b); }));
  return degree >= (plan.exact_quadratic ? 3 : 2) && std::fabs(c[degree]) > kNegligible * largest;
}

// The constant coordinate that makes the product of the lengths smallest: they become ‖w‖‖x‖ +
// |middle|.
double ConstantFor(double middle, double weight_norm, double input_norm) {
  return middle == 0 ? 0 : std::sqrt(std::fabs(middle) * input_norm / weight_norm);
}

// A linearisation without columns.
Linearisation WithoutColumns(const Polynomial& polynomial, int64_t dim, double weight_norm,
                             double input_norm) {
  if (dim < 1 || dim >= FeaturePlan::kMaxDim)
    Throw(ErrorCode::kInvalidOption, kWho, "given dim {}, expected 1 to {}", dim,
          FeaturePlan::kMaxDim - 1);
  if (!(weight_norm > 0 && input_norm > 0 && std::isfinite(weight_norm * input_norm)))
    Throw(ErrorCode::kInvalidOption, kWho, "given norms {} and {}, expected positive numbers",
          weight_norm, input_norm);
  const double constant = ConstantFor(polynomial.interval().Middle(), weight_norm, input_norm);
  return {.dim = dim,
          .polynomial = polynomial,
          .columns = {},
          .input_norm = std::hypot(input_norm, constant),
          .constant = constant,
          .errors = {}};
}

// (‖ŵ‖‖x̂‖)², constant coordinates included.
double SquaredReach(const Linearisation& plan, double weight_norm) {
  const Interval interval = plan.polynomial.interval();
  const double shift = plan.constant == 0 ? 0 : interval.Middle() / plan.constant;
  return std::pow(std::hypot(weight_norm, shift) * plan.input_norm / interval.Half(), 2);
}

double VarianceOf(std::span<const double> costs, std::span<const int64_t> columns) {
  double variance = 0;
  for (size_t k = 0; k < costs.size(); ++k)
    if (costs[k] > 0) variance += costs[k] / static_cast<double>(columns[k]);
  return variance;
}

}  // namespace

// The coordinate is sin θ with the density cos^{d−2} θ: quantiles by the midpoint rule. Those above
// 0, and the same below: an even function stays even.
UnitInputs RandomInputs(int64_t dim, double weight_norm, double input_norm) {
  constexpr int kPairs = 1024, kSteps = 1 << 16;
  UnitInputs inputs{.dim = dim, .weight_norm = weight_norm, .input_norm = input_norm, .values = {}};
  const double reach = weight_norm * input_norm;
  if (dim == 1) {
    inputs.values = {-reach, reach};
    return inputs;
  }
  const auto angle = [](double step) { return std::numbers::pi / 2 * step / kSteps; };
  const auto density = [&](int step) {
    return std::pow(std::cos(angle(step + 0.5)), static_cast<double>(dim - 2));
  };
  double total = 0, below = 0;
  for (int step = 0; step < kSteps; ++step) total += density(step);
  int pairs = 0;
  for (int step = 0; step < kSteps && pairs < kPairs; ++step) {
    const double here = density(step) / total;
    for (; pairs < kPairs && (pairs + 0.5) / kPairs <= below + here; ++pairs) {
      const double share = ((pairs + 0.5) / kPairs - below) / here;
      const double value = reach * std::sin(angle(step + share));
      inputs.values.insert(inputs.values.end(), {-value, value});
    }
    below += here;
  }
  return inputs;
}

double SketchVariance(const SketchPair& pair, int degree) {
  const auto& [a, c2, s2] = pair;
  return std::pow(c2 + a - s2, degree) + std::pow(2 * c2 - s2, degree) - 2 * std::pow(c2, degree);
}

double LargestSketchVariance(double a, int degree) {
  return (std::pow(3, degree) - 1) * std::pow(a, degree);
}

// Σ costs[k]/m_k is convex in each m_k: giving each further column to the degree that gains most by
// it is the best of all divisions.
std::vector<int64_t> ColumnsForTotal(std::span<const double> costs, int64_t total) {
  std::vector<int64_t> columns(costs.size());
  std::vector<size_t> random;
  for (size_t k = 0; k < costs.size(); ++k)
    if (costs[k] > 0) random.push_back(k);
  if (total < std::ssize(random) || total > Linearisation::kMaxColumns)
    Throw(ErrorCode::kInvalidOption, kWho,
          "given {} columns for {} random degrees, expected at least one for each and at most {}",
          total, random.size(), Linearisation::kMaxColumns);
  for (const size_t k : random) columns[k] = 1;
  const auto gain = [&](size_t k) {
    const auto m = static_cast<double>(columns[k]);
    return costs[k] / (m * (m + 1));
  };
  for (int64_t left = total - std::ssize(random); left > 0 && !random.empty(); --left)
    ++columns[*std::ranges::max_element(random, {}, gain)];
  return columns;
}

std::vector<int64_t> ColumnsForVariance(std::span<const double> costs, double variance) {
  if (!(variance > 0))
    Throw(ErrorCode::kInvalidOption, kWho, "given a variance of {}, expected a positive one",
          variance);
  double roots = 0;
  for (const double cost : costs) roots += std::sqrt(cost);
  std::vector<int64_t> columns;
  for (const double cost : costs) {
    const double wanted = std::ceil(std::sqrt(cost) * roots / variance);
    if (!(wanted <= static_cast<double>(Linearisation::kMaxColumns)))
      Throw(ErrorCode::kInvalidOption, kWho,
            "given an error that takes {:.3g} columns of one degree, expected one for at most {}",
            wanted, Linearisation::kMaxColumns);
    columns.push_back(static_cast<int64_t>(wanted));
  }
  return columns;
}

Linearisation LineariseForColumns(const Function& function, const UnitInputs& inputs,
                                  const LinearisedOptions& options) {
  const auto fit = [&](int degree) {
    if (!options.fit) return FitToValues(function, inputs.values, degree);
    const auto [least, most] = std::ranges::minmax(inputs.values);
    return FitPolynomial(function, options.interval.value_or(Interval{least, most}), degree,
                         *options.fit);
  };
  if (options.degree > Linearisation::kMaxDegree)
    Throw(ErrorCode::kInvalidOption, kWho, "given degree {}, expected 1 to {}", options.degree,
          Linearisation::kMaxDegree);
  if (inputs.values.empty())
    Throw(ErrorCode::kInvalidData, kWho, "given no values of w·x, expected some");
  Linearisation plan =
      WithoutColumns(fit(options.degree), inputs.dim, inputs.weight_norm, inputs.input_norm);
  plan.exact_quadratic = options.exact_quadratic && options.degree >= 2;
  // For random directions, Σ_i ŵ_i²x̂_i² is (a + 2c²)/(dim + 2) on average.
  const double a = SquaredReach(plan, inputs.weight_norm);
  const std::vector<double>& c = plan.polynomial.coefficients();
  const Interval interval = plan.polynomial.interval();
  std::vector<double> costs(c.size());
  for (size_t k = 2; k < c.size(); ++k) {
    if (!IsRandom(plan, k)) continue;
    for (const double t : inputs.values) {
      const double c2 = std::pow((t - interval.Middle()) / interval.Half(), 2);
      const SketchPair pair{
          .a = a, .c2 = c2, .s2 = (a + 2 * c2) / (static_cast<double>(plan.FeatureDim()) + 2)};
      costs[k] += c[k] * c[k] * SketchVariance(pair, static_cast<int>(k)) /
                  static_cast<double>(inputs.values.size());
    }
  }
  plan.columns = ColumnsForTotal(costs, options.columns);
  plan.errors = {
      .bias = MeanSquareError(plan.polynomial, function, inputs.values),
      .variance = VarianceOf(costs, plan.columns),
      .linear = MeanSquareError(FitToValues(function, inputs.values, 1), function, inputs.values)};
  return plan;
}

Linearisation LineariseForError(const Function& function, const LinearisedTarget& target) {
  if (!(target.error > 0) || target.units < 1)
    Throw(ErrorCode::kInvalidOption, kWho,
          "given an error of {} for {} units, expected positive numbers", target.error,
          target.units);
  const auto units = static_cast<double>(target.units);
  const auto bias_of = [&](const Polynomial& polynomial) {
    return units * std::pow(LargestDifference(polynomial, function, target.interval), 2);
  };
  for (int degree = 1; degree <= Linearisation::kMaxDegree; ++degree) {
    const Polynomial polynomial = FitPolynomial(function, target.interval, degree, target.fit);
    const double bias = bias_of(polynomial);
    if (bias > target.error / 2) continue;
    Linearisation plan =
        WithoutColumns(polynomial, target.dim, target.weight_norm, target.input_norm);
    const double a = SquaredReach(plan, target.weight_norm);
    std::vector<double> costs(polynomial.coefficients().size());
    for (size_t k = 2; k < costs.size(); ++k) {
      if (IsRandom(plan, k))
        costs[k] = units * std::pow(polynomial.coefficients()[k], 2) *
                   LargestSketchVariance(a, static_cast<int>(k));
    }
    plan.columns = ColumnsForVariance(costs, target.error / 2);
    plan.errors = {.bias = bias,
                   .variance = VarianceOf(costs, plan.columns),
                   .linear = bias_of(FitPolynomial(function, target.interval, 1, target.fit))};
    return plan;
  }
  Throw(ErrorCode::kInvalidOption, kWho,
        "given an error of {}, expected one that a {} polynomial of degree {} or less reaches",
        target.error, Name(target.fit), Linearisation::kMaxDegree);
}

std::vector<Linearisation::Part> Linearisation::Parts() const {
  std::vector<Part> parts;
  const int64_t d = FeatureDim();
  if (exact_quadratic) parts.push_back({.degree = 2, .columns = d * (d + 1) / 2});
  for (size_t k = 2; k < columns.size(); ++k)
    if (columns[k] > 0) parts.push_back({.degree = static_cast<int>(k), .columns = columns[k]});
  return parts;
}

int64_t Linearisation::Width() const {
  int64_t width = 1 + FeatureDim();
  for (const Part& part : Parts()) width += part.columns;
  return width;
}

// A sketch of degree k: k sums over the coordinates, k Fourier transforms and one back, of 5/2
// m·log₂ m operations each, and k − 1 products of spectra.
double Linearisation::Flops(int64_t outputs) const {
  const auto d = static_cast<double>(FeatureDim());
  double flops = 2 * static_cast<double>(Width()) * static_cast<double>(outputs);
  if (exact_quadratic) flops += d * (d + 1) / 2;
  for (size_t k = 0; k < columns.size(); ++k) {
    const auto m = static_cast<double>(columns[k]), degree = static_cast<double>(k);
    if (m > 0)
      flops += degree * 2 * d + (degree + 1) * 2.5 * m * std::log2(m) + (degree - 1) * 3 * m;
  }
  return flops;
}

double Linearisation::DenseFlops(int64_t units, int64_t outputs) const {
  return 2 * static_cast<double>(units) * static_cast<double>(dim + outputs);
}

std::string Linearisation::Text() const {
  const std::string figures =
      fmt::format("degree {}, {} columns: bias {:.3g}, variance {:.3g}; a straight line {:.3g}",
                  polynomial.degree(), Width(), errors.bias, errors.variance, errors.linear);
  return IsUsable() ? figures : "not usable here: a straight line is as good (" + figures + ")";
}

}  // namespace favor
