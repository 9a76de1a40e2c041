// From options to the tables of a row map.
#ifndef FAVOR_FEATURES_POLYNOMIAL_TABLES_H_
#define FAVOR_FEATURES_POLYNOMIAL_TABLES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "favor/features.h"
#include "favor/random.h"
#include "kernels/map_table.h"

namespace favor::features {

// Throws kInvalidOption if options say something of polynomials that the map does not take, or a
// polynomial that no plan can have.
void CheckPolynomial(const FeatureOptions& options, const kernels::MapEntry& map, int64_t dim);

// The shape of a row map; options have been checked.
kernels::PolynomialShape ShapeOf(const FeatureOptions& options, const kernels::MapEntry& map,
                                 int64_t dim);

// What one head draws.
std::vector<int32_t> DrawTable(const kernels::PolynomialShape& shape, kernels::TableLayout layout,
                               const RandomStream& stream);
// Whether a table from outside can belong to the shape.
bool IsTable(const kernels::PolynomialShape& shape, kernels::TableLayout layout,
             std::span<const double> numbers);

}  // namespace favor::features

#endif  // FAVOR_FEATURES_POLYNOMIAL_TABLES_H_
