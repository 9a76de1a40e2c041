// Gradients of linear attention of one head, on exponents, so that no scale can over- or underflow.
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

#include <cstdint>

#include "favor/tensor.h"
#include "kernels/linear_attention.h"
#include "kernels/prefix_state.h"

namespace favor::kernels {

// What comes back for the rows of one head, and where gradients go.
struct GradientRows {
  ConstView grad_output;            // [query length, value_dim], any type
  const double* log_sum = nullptr;  // [query length]; +∞: the row takes part in nothing
  const double* delta = nullptr;    // [query length]: −dO·O, 0 when not normalised
  bool normalized = true;
  View grad_queries, grad_keys, grad_values;  // f32 or f64; null data: not wanted
  bool add_to_keys = false;  // add to grad_keys and grad_values instead of storing there
};

// All return the rows that they could not compute with. States:
//   QueryGradients   reads `state`, all keys; adds the queries to `adjoint`, whose c is −state.c
//   KeyGradients     reads `adjoint`, all queries
//   AppendQueries    adds queries to an adjoint with maxima of its own
//   Causal…          `state` holds the keys before the range and moves on to its end; `adjoint`
//                    holds the queries behind the range and moves back to its begin
namespace reference {
RowCounts QueryGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                         const PrefixState& state, PrefixState& adjoint);
RowCounts KeyGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                       const PrefixState& adjoint);
RowCounts AppendQueries(const LinearHead& head, const GradientRows& gradients, RowRange range,
                        PrefixState& adjoint);
RowCounts CausalQueryGradients(const LinearHead& head, const GradientRows& gradients,
                               RowRange range, PrefixState& state);
RowCounts CausalKeyGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                             PrefixState& adjoint);
}  // namespace reference

namespace cpu {
RowCounts QueryGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                         const PrefixState& state, PrefixState& adjoint);
RowCounts KeyGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                       const PrefixState& adjoint);
RowCounts AppendQueries(const LinearHead& head, const GradientRows& gradients, RowRange range,
                        PrefixState& adjoint);
RowCounts CausalQueryGradients(const LinearHead& head, const GradientRows& gradients,
                               RowRange range, PrefixState& state);
RowCounts CausalKeyGradients(const LinearHead& head, const GradientRows& gradients, RowRange range,
                             PrefixState& adjoint);
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_ATTENTION_BACKWARD_H_
