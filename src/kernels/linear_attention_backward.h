// Gradients of linear attention, on exponents, so that no scale can over- or underflow.
//
// With log_sum_i = log Σ_j K(q_i, k_j) of the forward pass, the normalised weight of feature r
// between query i and key j is P = exp(E^q_ir + E^k_jr − log_sum_i) g^q_ir g^k_jr, and with
// δ_i = −dO_i·O_i (0 when not normalised)
//
//   dL/dP = dO_i·v_j + δ_i      dL/dv_j = Σ_i,r P dO_i
//
// Queries read their part from the state of the keys; keys read theirs from the adjoint: the state
// of the queries that see them, with exponents E^q_ir − log_sum_i, values dO_i and δ_i in place of
// 1 in z. A causal call runs the adjoint from the end. Nothing is rebuilt by subtraction.
#ifndef FAVOR_KERNELS_LINEAR_ATTENTION_BACKWARD_H_
#define FAVOR_KERNELS_LINEAR_ATTENTION_BACKWARD_H_

#include "kernels/linear_attention.h"

namespace favor::kernels {

struct LinearGradients {
  AttentionGradients call;
  LinearHeads heads;
  PrefixStates states{};  // the states of all keys, as a bidirectional forward call left them
  const KeptStates* kept =
      nullptr;            // what a causal forward call of the same arrays left, if it did
  bool own_mean = false;  // key_mean comes from the call's own keys: it is differentiated too
};

namespace reference {
void LinearAttentionBackward(const LinearGradients& a, const Context& context);
}
namespace cpu {
void LinearAttentionBackward(const LinearGradients& a, const Context& context);
}
// Gradients of keys that several heads share are added up in the type of their array.
namespace cuda {
void LinearAttentionBackward(const LinearGradients& a, const Context& context);
}

inline void LinearAttentionBackward(const LinearGradients& a, const Context& context) {
  Run<LinearGradients>({.name = "linear attention",
                        .reference = reference::LinearAttentionBackward,
                        .cpu = cpu::LinearAttentionBackward,
                        .cuda = cuda::LinearAttentionBackward,
                        .describe = OfGradients},
                       a.call.grad_q, a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_ATTENTION_BACKWARD_H_
