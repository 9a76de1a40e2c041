// Exact attention of rows of one head, for the SIMD target of the machine: the tasks of
// cpu/exact_attention.cc. Keys stream past in blocks with a running maximum.
#ifndef FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_
#define FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_

#include "kernels/head_rows.h"

namespace favor::kernels::cpu {

RowCounts Exact(const ExactHead& rows, RowRange range, const Context& context,
                const HeadOutput& out);

// What a block of queries and a block of keys have to do with each other, in a backward call.
struct ExactPair {
  RowRange queries, keys;
  bool add_to_queries, add_to_keys;  // else their gradients are stored
};
RowCounts ExactGradients(const ExactHead& rows, const HeadGradients& gradients,
                         const ExactPair& pair, const Context& context);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_EXACT_ROWS_H_
