// Queries and keys of one head in an order in which each query sees all keys up to its step: a
// causal problem on parts of the rows, perhaps read from the last row to the first. Windows and
// what lies beyond them are made of stairs, so that sums are only ever added to.
#ifndef FAVOR_KERNELS_CPU_STAIRS_H_
#define FAVOR_KERNELS_CPU_STAIRS_H_

#include <vector>

#include "kernels/head_rows.h"

namespace favor::kernels::cpu {

// In its order, query t sees keys 0 … lead + t of those that there are.
struct Stair {
  RowRange queries, keys;  // rows of the arrays
  int64_t lead = 0;
  bool reversed = false;  // the order is that of falling rows
};

// Sums over the keys that queries of a stair see. Row t of them is query t in the stair's order.
class StairSums {
 public:
  StairSums(int64_t rows, int64_t value_dim)
      : value_dim_(value_dim),
        log_scale_(static_cast<size_t>(rows)),
        denominator_(log_scale_.size()),
        numerator_(static_cast<size_t>(rows * value_dim)) {}

  // Returns the number of unusable rows.
  RowCounts Read(const LinearHead& head, const Stair& stair);

  double LogScale(int64_t t) const { return log_scale_[static_cast<size_t>(t)]; }
  double Denominator(int64_t t) const { return denominator_[static_cast<size_t>(t)]; }
  const double* Numerator(int64_t t) const { return numerator_.data() + t * value_dim_; }

 private:
  int64_t value_dim_;
  std::vector<double> log_scale_, denominator_, numerator_;
};

// Gradients that pass through the stair's pairs of a query and a key. Stored or added as
// `gradients` says; keys that no query sees are left alone.
RowCounts StairGradients(const LinearHead& head, const HeadGradients& gradients,
                         const Stair& stair);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_STAIRS_H_
