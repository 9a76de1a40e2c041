// Features of one row in double, as the reference kernels use them.
#ifndef FAVOR_KERNELS_REFERENCE_ROW_FEATURES_H_
#define FAVOR_KERNELS_REFERENCE_ROW_FEATURES_H_

#include <cstdint>
#include <vector>

#include "core/element.h"
#include "favor/tensor.h"
#include "kernels/features.h"

namespace favor::kernels::reference {

inline std::vector<double> LoadRow(const ConstView& rows, int64_t index) {
  std::vector<double> values(static_cast<size_t>(rows.size(1)));
  for (int64_t i = 0; i < rows.size(1); ++i)
    values[static_cast<size_t>(i)] = ElementAt(rows, index, i);
  return values;
}

// Exponents and factors of row `index` of `rows`, as x = (row − mean)·scale.
struct RowFeatures {
  RowFeatures(const HeadFeatures& head, FeatureRole row_role, const ConstView& rows, int64_t index,
              const double* mean, double scale)
      : role(row_role),
        x(LoadRow(rows, index)),
        exponents(static_cast<size_t>(head.width)),
        factors(exponents.size()) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - (mean != nullptr ? mean[i] : 0)) * scale;
    FeaturesOf(head, role, x.data(), exponents.data(), factors.data());
  }

  FeatureRole role;
  std::vector<double> x, exponents, factors;
};

}  // namespace favor::kernels::reference

#endif  // FAVOR_KERNELS_REFERENCE_ROW_FEATURES_H_
