// Softmax attention: O_i = Σ_j e^{s_ij} v_j / Σ_j e^{s_ij}, s_ij = scale·q_i·k_j, over existing
// keys (and those up to the query when causal), in O(L·d) memory; and its gradients: with P_ij =
// exp(s_ij − log_sum_i), δ_i = −dO_i·O_i and dS_ij = P_ij (dO_i·v_j + δ_i),
//
//   dq_i = scale·Σ_j dS_ij k_j    dk_j = scale·Σ_i dS_ij q_i    dv_j = Σ_i P_ij dO_i
#ifndef FAVOR_KERNELS_EXACT_ATTENTION_H_
#define FAVOR_KERNELS_EXACT_ATTENTION_H_

#include "kernels/attention_problem.h"
#include "kernels/backend.h"

namespace favor::kernels {

namespace reference {
void ExactAttention(const AttentionArguments& a, const Context& context);
void ExactAttentionBackward(const AttentionGradients& a, const Context& context);
}  // namespace reference
namespace cpu {
void ExactAttention(const AttentionArguments& a, const Context& context);
void ExactAttentionBackward(const AttentionGradients& a, const Context& context);
}  // namespace cpu
// Inputs are f32, f16 or bf16, all of one type, rows of up to 256 elements; results are f32 or of
// that type; log_sum and delta are f32. Tensor cores take f16 and bf16 (without Hopper's, rows of
// up to 128 elements) and multiply weights that were rounded to that type; otherwise arithmetic is
// f32.
namespace cuda {
void ExactAttention(const AttentionArguments& a, const Context& context);
void ExactAttentionBackward(const AttentionGradients& a, const Context& context);
}  // namespace cuda

// Floating-point operations of the products over `pairs` of a query and a key that it sees, per
// group: q·k and P·v forward; with the backward pass also q·k again, dO·v, and the sums of the
// three gradients.
inline double ExactFlops(int64_t groups, double pairs, int64_t dim, int64_t value_dim,
                         bool backward) {
  const auto d = static_cast<double>(dim), dv = static_cast<double>(value_dim);
  return static_cast<double>(groups) * pairs * 2 * (backward ? 4 * d + 3 * dv : d + dv);
}

inline void ExactAttention(const AttentionArguments& a, const Context& context) {
  Run<AttentionArguments>({.name = "exact attention",
                           .reference = reference::ExactAttention,
                           .cpu = cpu::ExactAttention,
                           .cuda = cuda::ExactAttention},
                          a.out, a, context);
}
inline void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  Run<AttentionGradients>({.name = "exact attention",
                           .reference = reference::ExactAttentionBackward,
                           .cpu = cpu::ExactAttentionBackward,
                           .cuda = cuda::ExactAttentionBackward,
                           .describe = OfGradients},
                          a.grad_q, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_EXACT_ATTENTION_H_
