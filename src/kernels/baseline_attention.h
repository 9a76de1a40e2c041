// The baselines that attention must beat. `uniform` ignores queries and keys: the mean of the
// values that a query sees. `identity` gives every token its own value (the optimum line of the
// Performers paper: no token sees another).
#ifndef FAVOR_KERNELS_BASELINE_ATTENTION_H_
#define FAVOR_KERNELS_BASELINE_ATTENTION_H_

#include "kernels/attention_problem.h"
#include "kernels/backend.h"

namespace favor::kernels {

namespace cpu {  // in double, for arrays of any type
void UniformAttention(const AttentionArguments& a, const Context& context);
void UniformAttentionBackward(const AttentionGradients& a, const Context& context);
void IdentityAttention(const AttentionArguments& a, const Context& context);
void IdentityAttentionBackward(const AttentionGradients& a, const Context& context);
}  // namespace cpu
namespace cuda {
void IdentityAttention(const AttentionArguments& a, const Context& context);
void IdentityAttentionBackward(const AttentionGradients& a, const Context& context);
}  // namespace cuda

inline void UniformAttention(const AttentionArguments& a, const Context& context) {
  Run<AttentionArguments>({.name = "uniform attention",
                           .reference = cpu::UniformAttention,
                           .cpu = cpu::UniformAttention},
                          a.out, a, context);
}
inline void UniformAttentionBackward(const AttentionGradients& a, const Context& context) {
  Run<AttentionGradients>({.name = "uniform attention",
                           .reference = cpu::UniformAttentionBackward,
                           .cpu = cpu::UniformAttentionBackward,
                           .describe = OfGradients},
                          a.grad_v, a, context);
}
inline void IdentityAttention(const AttentionArguments& a, const Context& context) {
  Run<AttentionArguments>({.name = "identity attention",
                           .reference = cpu::IdentityAttention,
                           .cpu = cpu::IdentityAttention,
                           .cuda = cuda::IdentityAttention},
                          a.out, a, context);
}
inline void IdentityAttentionBackward(const AttentionGradients& a, const Context& context) {
  Run<AttentionGradients>({.name = "identity attention",
                           .reference = cpu::IdentityAttentionBackward,
                           .cpu = cpu::IdentityAttentionBackward,
                           .cuda = cuda::IdentityAttentionBackward,
                           .describe = OfGradients},
                          a.grad_v, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_BASELINE_ATTENTION_H_
