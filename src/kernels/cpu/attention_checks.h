// Checks of one head's rows, for kernels that look at their inputs while those are in the cache.
#ifndef FAVOR_KERNELS_CPU_ATTENTION_CHECKS_H_
#define FAVOR_KERNELS_CPU_ATTENTION_CHECKS_H_

#include "kernels/head_rows.h"
#include "kernels/row_counts.h"

namespace favor::kernels::cpu {

// Counts as unusable what CountUnusable (kernels/attention_checks.h) does, in some queries of a
// group and some of its keys and values.
RowCounts CountUnusableRows(const AttentionProblem& problem, int64_t group, RowRange queries,
                            RowRange keys);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_ATTENTION_CHECKS_H_
