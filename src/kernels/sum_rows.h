// Rows of sums over several sets of keys, added up before the division.
#ifndef FAVOR_KERNELS_SUM_ROWS_H_
#define FAVOR_KERNELS_SUM_ROWS_H_

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/output_row.h"

namespace favor::kernels {

// One row of SumParts; by default, of no keys.
struct SumRow {
  double log_scale = -INFINITY, denominator = 0;
  const double* numerator = nullptr;  // [value_dim]
};

// Writes row `row` from the total of `parts`; `total` is memory for value_dim numbers.
inline RowCounts StoreSum(const HeadOutput& out, int64_t row, std::span<const SumRow> parts,
                          std::span<double> total) {
  double log_scale = -INFINITY, denominator = 0;
  for (const SumRow& part : parts) log_scale = std::max(log_scale, part.log_scale);
  std::ranges::fill(total, 0.0);
  for (const SumRow& part : parts) {
    if (part.log_scale == -INFINITY) continue;
    const double factor = std::exp(part.log_scale - log_scale);
    denominator += factor * part.denominator;
    for (size_t v = 0; v < total.size(); ++v) total[v] += factor * part.numerator[v];
  }
  return StoreRow(
      out, row, static_cast<int64_t>(total.size()), log_scale > -INFINITY, log_scale,
      [&](int64_t v) { return total[static_cast<size_t>(v)]; }, denominator);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_SUM_ROWS_H_
