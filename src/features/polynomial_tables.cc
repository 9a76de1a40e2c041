#include "features/polynomial_tables.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"

namespace favor::features {
namespace {

using kernels::MapEntry;
using kernels::PolynomialBlock;
using kernels::PolynomialShape;
using kernels::TableLayout;

constexpr double kLargestCoefficient = 1e6;

// c_0 … c_n of the options: s^degree unless there are coefficients.
std::vector<double> CoefficientsOf(const FeatureOptions& options, const MapEntry& map) {
  if (!map.row.coefficients.empty())
    return {map.row.coefficients.begin(), map.row.coefficients.end()};
  if (!options.coefficients.empty()) return options.coefficients;
  std::vector<double> coefficients(static_cast<size_t>(options.degree) + 1, 0.0);
  coefficients.back() = 1;
  return coefficients;
}

void CheckCoefficients(const std::vector<double>& coefficients) {
  if (coefficients.size() < 2 ||
      coefficients.size() > static_cast<size_t>(kernels::kMaxPolynomialDegree) + 1)
    Throw(ErrorCode::kInvalidOption, "coefficients",
          "given {}, expected 2 to {}: those of degrees 0, 1, …", coefficients.size(),
          kernels::kMaxPolynomialDegree + 1);
  for (const double c : coefficients) {
    if (!(std::fabs(c) <= kLargestCoefficient))
      Throw(ErrorCode::kInvalidOption, "coefficients", "given {}, expected numbers up to {:.0e}", c,
            kLargestCoefficient);
  }
  if (coefficients.back() == 0)
    Throw(ErrorCode::kInvalidOption, "coefficients",
          "given 0 for the highest degree {}, expected another number", coefficients.size() - 1);
}

// Number of values that entry `at` of a table can have, and the first of them.
struct Range {
  int64_t count, first;
};

Range RangeOf(const PolynomialShape& shape, const PolynomialBlock& block, TableLayout layout) {
  return layout == TableLayout::kIndices ? Range{shape.dim, 0} : Range{block.columns, 1};
}

int64_t TableEnd(const PolynomialShape& shape, const PolynomialBlock& block, TableLayout layout) {
  return block.table + block.degree * (layout == TableLayout::kIndices ? block.columns : shape.dim);
}

}  // namespace

void CheckPolynomial(const FeatureOptions& options, const MapEntry& map, int64_t dim) {
  const std::string_view name = map.traits->info.name;
  const bool takes_polynomial = map.IsRowMap() && map.row.coefficients.empty();
  if (!takes_polynomial && options.degree != FeatureOptions().degree)
    Throw(ErrorCode::kInvalidOption, "degree", "given {}, but the map '{}' takes none",
          options.degree, name);
  if (!takes_polynomial && !options.coefficients.empty())
    Throw(ErrorCode::kInvalidOption, "coefficients", "given {}, but the map '{}' takes none",
          options.coefficients.size(), name);
  if (options.rotate && !(map.IsRowMap() && map.row.layout == TableLayout::kIndices))
    Throw(ErrorCode::kInvalidOption, "rotate", "given for the map '{}', expected poly-sum", name);
  if (!map.IsRowMap()) return;
  if (takes_polynomial && options.coefficients.empty() &&
      (options.degree < 1 || options.degree > kernels::kMaxPolynomialDegree))
    Throw(ErrorCode::kInvalidOption, "degree", "given {}, expected 1 to {}", options.degree,
          kernels::kMaxPolynomialDegree);
  const std::vector<double> coefficients = CoefficientsOf(options, map);
  CheckCoefficients(coefficients);
  int64_t width = kernels::ExactWidth(coefficients, dim);
  if (map.row.layout != TableLayout::kNone) {
    const int64_t degrees = kernels::RandomDegrees(coefficients);
    if (options.features < degrees)
      Throw(ErrorCode::kInvalidOption, "features",
            "given {} for the map '{}' with {} random degrees, expected at least as many",
            options.features, name, degrees);
    width = kernels::ExactWidth(std::span(coefficients).first(2), dim) +
            (degrees > 0 ? options.features : 0);
  }
  if (width > FeaturePlan::kMaxRowWidth)
    Throw(ErrorCode::kInvalidOption, "dim",
          "given {} for the map '{}', which makes {} features of it, expected at most {}", dim,
          name, width, FeaturePlan::kMaxRowWidth);
}

PolynomialShape ShapeOf(const FeatureOptions& options, const MapEntry& map, int64_t dim) {
  const std::vector<double> coefficients = CoefficientsOf(options, map);
  if (map.row.layout == TableLayout::kNone) return kernels::ExactShape(coefficients, dim);
  return kernels::RandomShape(coefficients, dim, options.features, map.row.layout, options.rotate);
}

std::vector<int32_t> DrawTable(const PolynomialShape& shape, TableLayout layout,
                               const RandomStream& stream) {
  std::vector<int32_t> table(static_cast<size_t>(shape.table_size));
  for (const PolynomialBlock& block : shape.blocks) {
    if (block.table < 0) continue;
    // Degrees are independent of each other, and places or buckets of signs.
    const RandomStream places = stream.Child(static_cast<uint64_t>(block.degree)).Child(0),
                       signs = stream.Child(static_cast<uint64_t>(block.degree)).Child(1);
    const auto [count, first] = RangeOf(shape, block, layout);
    const auto begin = static_cast<size_t>(block.table);
    for (auto i = begin; i < static_cast<size_t>(TableEnd(shape, block, layout)); ++i) {
      const auto drawn =
          first + static_cast<int64_t>(places.Uniform(i - begin) * static_cast<double>(count));
      table[i] = static_cast<int32_t>(drawn);
      if (layout == TableLayout::kBuckets && signs.Sign(i - begin) < 0) table[i] = -table[i];
    }
  }
  for (int64_t i = 0; shape.rotation >= 0 && i < shape.dim; ++i)
    table[static_cast<size_t>(shape.rotation + i)] =
        static_cast<int32_t>(stream.Child(0).Sign(static_cast<uint64_t>(i)));
  return table;
}

bool IsTable(const PolynomialShape& shape, TableLayout layout, std::span<const double> numbers) {
  if (numbers.size() != static_cast<size_t>(shape.table_size)) return false;
  const auto all = [&](int64_t begin, int64_t end, const auto& good) {
    return std::all_of(numbers.begin() + begin, numbers.begin() + end,
                       [&](double n) { return n == std::floor(n) && good(n); });
  };
  for (const PolynomialBlock& block : shape.blocks) {
    if (block.table < 0) continue;
    const auto [count, first] = RangeOf(shape, block, layout);
    const auto low = static_cast<double>(first), high = static_cast<double>(first + count - 1);
    const bool fits = all(block.table, TableEnd(shape, block, layout), [&](double n) {
      const double value = layout == TableLayout::kBuckets ? std::fabs(n) : n;
      return value >= low && value <= high;
    });
    if (!fits) return false;
  }
  return shape.rotation < 0 || all(shape.rotation, shape.rotation + shape.dim,
                                   [](double n) { return std::fabs(n) == 1; });
}

}  // namespace favor::features
