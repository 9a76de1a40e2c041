#include "kernels/exact_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.h"
#include "kernels/output_row.h"

namespace favor::kernels::reference {
RowCounts Exact(const ExactRows& rows, int64_t begin, int64_t end, const OutputRows& out) {
  const int64_t length = rows.keys.size(0), d = rows.keys.size(1), dv = rows.values.size(1);
  RowCounts counts;
  std::vector<double> scores(static_cast<size_t>(length)), sum(static_cast<size_t>(dv));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t visible = rows.causal ? rows.before + i + 1 : length;
    double largest = -INFINITY;
    for (int64_t j = 0; j < visible; ++j) {
      double dot = 0;
      for (int64_t c = 0; c < d; ++c)
        dot += ElementAt(rows.queries, i, c) * ElementAt(rows.keys, j, c);
      const bool exists = rows.mask == nullptr || rows.mask[j] != 0;
      scores[static_cast<size_t>(j)] = exists ? rows.scale * dot : -INFINITY;
      largest = std::max(largest, scores[static_cast<size_t>(j)]);
    }
    const bool any = largest > -INFINITY;
    double denominator = 0;
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int64_t j = 0; any && j < visible; ++j) {
      if (scores[static_cast<size_t>(j)] == -INFINITY) continue;  // masked: whatever it holds
      const double weight = std::exp(scores[static_cast<size_t>(j)] - largest);
      denominator += weight;
      for (int64_t c = 0; c < dv; ++c)
        sum[static_cast<size_t>(c)] += weight * ElementAt(rows.values, j, c);
    }
    counts += StoreRow(
        out, i, dv, any, largest, [&](int64_t v) { return sum[static_cast<size_t>(v)]; },
        denominator);
  }
  return counts;
}

}  // namespace favor::kernels::reference
