// Columns of each degree as Algorithm 1 of the notes on linearised layers prints them, to be
// compared with what reaches its target (favor/linearised.h).
#ifndef FAVOR_EXPERIMENTS_PUBLISHED_COLUMNS_H_
#define FAVOR_EXPERIMENTS_PUBLISHED_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "favor/polynomial.h"

namespace favor::experiments {

struct PublishedColumns {
  Polynomial polynomial;         // Bernstein's
  std::vector<int64_t> columns;  // of each degree; the first, of degree 0, is 0

  int64_t Total() const;
};

struct PublishedTarget {
  Interval interval;
  int64_t units = 1;
  double error = 0;  // ε
  double largest_second_derivative = 0;
};

// Degree n = ⌈√units·(b − a)²·sup|f''|/(8√ε)⌉ and m_k = ⌈n·units·c_k²/ε⌉ with c_k in powers of u,
// where c_k² is α_k²‖w‖^{2k}‖x‖^{2k}.
PublishedColumns PublishedAlgorithm(const Function& function, const PublishedTarget& target);

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_PUBLISHED_COLUMNS_H_
