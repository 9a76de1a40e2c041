// Linear attention of one head, for the SIMD target of the machine: the tasks of
// cpu/linear_attention.cc and of its backward call.
#ifndef FAVOR_KERNELS_CPU_SIMD_LINEAR_ROWS_H_
#define FAVOR_KERNELS_CPU_SIMD_LINEAR_ROWS_H_

#include "kernels/head_rows.h"
#include "kernels/prefix_state.h"

namespace favor::kernels::cpu {

//   AppendKeys    adds keys to the state
//   ReadQueries   attention of queries to what the state holds
//   Causal        rows after those in `state`, which moves to the end of the range
RowCounts AppendKeys(const LinearHead& head, RowRange range, const PrefixState& state);
RowCounts ReadQueries(const LinearHead& head, RowRange range, const PrefixState& state,
                      const HeadOutput& out);
RowCounts Causal(const LinearHead& head, RowRange range, const PrefixState& state,
                 const HeadOutput& out);

//   QueryGradients   reads `state`, all keys; adds the queries to `adjoint`, whose c is −state.c
//   KeyGradients     reads `adjoint`, all queries
//   AppendQueries    adds queries to an adjoint with maxima of its own
//   Causal…          `state` holds the keys before the range, `adjoint` the queries after it;
//                    exponent_gradients, [length] or null: for each row of the range, the gradient
//                    of a number that is added to all its exponents
RowCounts QueryGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                         const PrefixState& state, const PrefixState& adjoint);
RowCounts KeyGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                       const PrefixState& adjoint);
RowCounts AppendQueries(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                        const PrefixState& adjoint);
RowCounts CausalQueryGradients(const LinearHead& head, const HeadGradients& gradients,
                               RowRange range, const PrefixState& state,
                               double* exponent_gradients);
RowCounts CausalKeyGradients(const LinearHead& head, const HeadGradients& gradients, RowRange range,
                             const PrefixState& adjoint, double* exponent_gradients);

}  // namespace favor::kernels::cpu

#endif  // FAVOR_KERNELS_CPU_SIMD_LINEAR_ROWS_H_
