#include "kernels/polynomial_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace favor::kernels {
namespace {

// k!/Π(multiplicities!) of the factors 0, s_1, …: how often the monomial occurs in (Σ x_i y_i)^k.
double Occurrences(const std::vector<int64_t>& shifts) {
  double count = 1;
  for (size_t i = 0, equal = 0; i < shifts.size(); ++i) {
    equal = i > 0 && shifts[i] == shifts[i - 1] ? equal + 1 : 1;
    count *= static_cast<double>(i + 1) / static_cast<double>(equal);
  }
  return std::round(count);
}

// Appends the runs of one degree. `patterns` are the shifts of the runs of the degree before, and
// become those of this one.
void AddRuns(int degree, double coefficient, std::vector<std::vector<int64_t>>& patterns,
             PolynomialShape& shape) {
  const size_t parents = patterns.size();
  const size_t first_parent = shape.runs.size() - parents;
  std::vector<std::vector<int64_t>> longer;
  for (size_t parent = 0; parent < parents; ++parent) {
    for (int64_t shift = patterns[parent].back(); shift < shape.dim; ++shift) {
      longer.push_back(patterns[parent]);
      longer.back().push_back(shift);
      MonomialRun run{.degree = degree,
                      .shift = shift,
                      .length = shape.dim - shift,
                      .at = shape.monomials,
                      .parent = static_cast<int64_t>(first_parent + parent)};
      shape.monomials += run.length;
      if (coefficient != 0) {
        run.column = shape.width;
        run.weight = std::sqrt(std::fabs(coefficient) * Occurrences(longer.back()));
        shape.width += run.length;
      }
      shape.runs.push_back(run);
    }
  }
  patterns = std::move(longer);
}

// Blocks of degrees 0 and 1, and the run of degree 1.
void AddLowDegrees(std::span<const double> coefficients, PolynomialShape& shape) {
  shape.coefficients.assign(coefficients.begin(), coefficients.end());
  if (coefficients[0] != 0) {
    shape.blocks.push_back({.degree = 0, .coefficient = coefficients[0], .first = 0, .columns = 1});
    shape.width = 1;
  }
  MonomialRun run{.degree = 1, .shift = 0, .length = shape.dim, .at = 0, .parent = -1};
  shape.monomials = shape.dim;
  if (coefficients.size() > 1 && coefficients[1] != 0) {
    run.column = shape.width;
    run.weight = std::sqrt(std::fabs(coefficients[1]));
    shape.blocks.push_back(
        {.degree = 1, .coefficient = coefficients[1], .first = shape.width, .columns = shape.dim});
    shape.width += shape.dim;
  }
  shape.runs.push_back(run);
}

// Shares of `columns` in proportion to `weights`, at least 1 each, largest remainders first.
std::vector<int64_t> Shares(const std::vector<double>& weights, int64_t columns) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const int64_t spare = columns - static_cast<int64_t>(weights.size());
  std::vector<int64_t> shares;
  std::vector<double> rest;
  for (const double weight : weights) {
    const double share = weight / total * static_cast<double>(spare);
    shares.push_back(1 + static_cast<int64_t>(share));
    rest.push_back(share - std::floor(share));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return rest[a] > rest[b]; });
  int64_t left = columns - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (size_t i = 0; left > 0; ++i, --left) ++shares[order[i]];
  return shares;
}

void AddTurns(PolynomialShape& shape) {
  int64_t largest = 0;
  for (const PolynomialBlock& block : shape.blocks) {
    if (block.table >= 0 && std::has_single_bit(static_cast<uint64_t>(block.columns)))
      largest = std::max(largest, block.columns);
  }
  for (int64_t k = 0; k < largest / 2; ++k) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(largest);
    shape.cosines.push_back(static_cast<float>(std::cos(angle)));
    shape.sines.push_back(static_cast<float>(std::sin(angle)));
  }
}

}  // namespace

double PolynomialShape::Kernel(double s) const {
  double value = 0;
  for (auto c = coefficients.rbegin(); c != coefficients.rend(); ++c) value = value * s + *c;
  return value;
}

PolynomialShape ExactShape(std::span<const double> coefficients, int64_t dim) {
  PolynomialShape shape{.dim = dim};
  AddLowDegrees(coefficients, shape);
  std::vector<std::vector<int64_t>> patterns{{0}};
  for (size_t degree = 2; degree < coefficients.size(); ++degree) {
    const int64_t first = shape.width;
    const double c = coefficients[degree];
    AddRuns(static_cast<int>(degree), c, patterns, shape);
    if (c != 0)
      shape.blocks.push_back({.degree = static_cast<int>(degree),
                              .coefficient = c,
                              .first = first,
                              .columns = shape.width - first});
  }
  return shape;
}

PolynomialShape RandomShape(std::span<const double> coefficients, int64_t dim, int64_t columns,
                            TableLayout layout, bool rotate) {
  PolynomialShape shape{
      .dim = rotate ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(dim))) : dim};
  AddLowDegrees(coefficients, shape);
  std::vector<int> degrees;
  std::vector<double> weights;
  for (size_t degree = 2; degree < coefficients.size(); ++degree) {
    if (coefficients[degree] == 0) continue;
    degrees.push_back(static_cast<int>(degree));
    weights.push_back(std::fabs(coefficients[degree]) *
                      std::sqrt(std::pow(3.0, static_cast<double>(degree)) - 1));
  }
  const std::vector<int64_t> shares =
      degrees.empty() ? std::vector<int64_t>() : Shares(weights, columns);
  for (size_t i = 0; i < degrees.size(); ++i) {
    shape.blocks.push_back({.degree = degrees[i],
                            .coefficient = coefficients[static_cast<size_t>(degrees[i])],
                            .first = shape.width,
                            .columns = shares[i],
                            .table = shape.table_size});
    shape.width += shares[i];
    shape.table_size += degrees[i] * (layout == TableLayout::kIndices ? shares[i] : shape.dim);
  }
  if (layout == TableLayout::kBuckets) AddTurns(shape);
  if (rotate && shape.IsRandom()) {
    shape.rotation = shape.table_size;
    shape.table_size += shape.dim;
  }
  return shape;
}

int64_t ExactWidth(std::span<const double> coefficients, int64_t dim) {
  constexpr double kMost = 1e15;
  double width = 0, monomials = 1;  // C(dim + k − 1, k)
  for (size_t degree = 0; degree < coefficients.size(); ++degree) {
    if (coefficients[degree] != 0) width += monomials;
    monomials *=
        static_cast<double>(dim + static_cast<int64_t>(degree)) / static_cast<double>(degree + 1);
  }
  return static_cast<int64_t>(std::round(std::min(width, kMost)));
}

int64_t RandomDegrees(std::span<const double> coefficients) {
  int64_t count = 0;
  for (size_t degree = 2; degree < coefficients.size(); ++degree)
    count += coefficients[degree] != 0 ? 1 : 0;
  return count;
}

}  // namespace favor::kernels
