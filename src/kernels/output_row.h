// The last step of a row of attention: from (ρ, N, D) to what the caller wants.
#ifndef FAVOR_KERNELS_OUTPUT_ROW_H_
#define FAVOR_KERNELS_OUTPUT_ROW_H_

#include <cmath>
#include <cstdint>

#include "core/element.h"
#include "kernels/head_rows.h"

namespace favor::kernels {

// `value(v)` is N_v. `has_keys` is false if no key exists for the row. `log_scale` is ρ with query
// norm, normalisers and the shift of centred keys included, so that exp(log_scale)·N is the
// unnormalised sum.
template <class Value>
RowCounts StoreRow(const HeadOutput& out, int64_t row, int64_t value_dim, bool has_keys,
                   double log_scale, const Value& value, double denominator) {
  if (out.log_scale != nullptr) {
    out.log_scale[row] = log_scale;
    out.denominator[row] = denominator;
    for (int64_t v = 0; v < value_dim; ++v) out.numerator[row * value_dim + v] = value(v);
    return {};
  }
  RowCounts counts;
  counts.empty = has_keys ? 0 : 1;
  const bool vanishes = !(denominator > 0) ||
                        (out.least_denominator > 0 &&
                         !(log_scale + std::log(denominator) >= std::log(out.least_denominator)));
  counts.nonpositive = has_keys && vanishes ? 1 : 0;
  const bool divide = out.normalize && has_keys && !vanishes;
  if (!out.normalize) counts.nonpositive = 0;  // no denominator is used
  if (out.log_sum != nullptr) {
    out.log_sum[row] = divide                       ? log_scale + std::log(denominator)
                       : !out.normalize && has_keys ? 0.0
                                                    : INFINITY;
  }
  for (int64_t v = 0; v < value_dim; ++v) {
    const double n = value(v);
    double result = 0;
    if (divide) result = n / denominator;
    // Through the logarithm: e^ρ alone may overflow even if the sum does not.
    if (!out.normalize && has_keys && n != 0)
      result = std::copysign(std::exp(log_scale + std::log(std::fabs(n))), n);
    SetElement(out.output, row, v, result);
    if (!std::isfinite(ElementAt(out.output, row, v))) counts.unusable = 1;
  }
  return counts;
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_OUTPUT_ROW_H_
