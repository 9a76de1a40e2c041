// Gradients of softmax attention of one head: with P_ij = exp(s_ij − log_sum_i), δ_i = −dO_i·O_i
// and dS_ij = P_ij (dO_i·v_j + δ_i),
//
//   dq_i = scale·Σ_j dS_ij k_j    dk_j = scale·Σ_i dS_ij q_i    dv_j = Σ_i P_ij dO_i
//
// Scores are computed again, once for the queries and once for the keys, so that every row is
// written by one task.
#ifndef FAVOR_KERNELS_EXACT_ATTENTION_BACKWARD_H_
#define FAVOR_KERNELS_EXACT_ATTENTION_BACKWARD_H_

#include <cstdint>

#include "favor/context.h"
#include "kernels/exact_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::kernels {

namespace reference {
RowCounts ExactQueryGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                              int64_t end);
RowCounts ExactKeyGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                            int64_t end);
}  // namespace reference

namespace cpu {
RowCounts ExactQueryGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                              int64_t end, const Context& context);
RowCounts ExactKeyGradients(const ExactRows& rows, const GradientRows& gradients, int64_t begin,
                            int64_t end, const Context& context);
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_EXACT_ATTENTION_BACKWARD_H_
