// Exact attention of rows of one head, for the SIMD target of the machine: the tasks of
// cpu/exact_attention.cc. Keys stream past in blocks with a running maximum.
#ifndef FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_
#define FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_

#include "kernels/head_rows.h"

namespace favor::kernels::cpu {

RowCounts Exact(const ExactHead& rows, RowRange range, const Context& context,
                const HeadOutput& out);
// Scores are computed again, once for the queries and once for the keys, so that every row is
// written by one task.
RowCounts ExactQueryGradients(const ExactHead& rows, const HeadGradients& gradients, RowRange range,
                              const Context& context);
RowCounts ExactKeyGradients(const ExactHead& rows, const HeadGradients& gradients, RowRange range,
                            const Context& context);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_
