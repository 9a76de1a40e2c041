// The kernels of linear attention as a table, one for each way to compute it: a caller chooses
// once.
#ifndef FAVOR_KERNELS_LINEAR_KERNELS_H_
#define FAVOR_KERNELS_LINEAR_KERNELS_H_

#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::kernels {

struct LinearKernels {
  RowCounts (*append_keys)(const LinearHead&, RowRange, PrefixState& state);
  RowCounts (*read_queries)(const LinearHead&, RowRange, const PrefixState& state,
                            const OutputRows&);
  RowCounts (*causal)(const LinearHead&, RowRange, PrefixState& state, const OutputRows&);

  RowCounts (*query_gradients)(const LinearHead&, const GradientRows&, RowRange,
                               const PrefixState& state, PrefixState& adjoint);
  RowCounts (*key_gradients)(const LinearHead&, const GradientRows&, RowRange,
                             const PrefixState& adjoint);
  RowCounts (*append_queries)(const LinearHead&, const GradientRows&, RowRange,
                              PrefixState& adjoint);
  RowCounts (*causal_query_gradients)(const LinearHead&, const GradientRows&, RowRange,
                                      PrefixState& state);
  RowCounts (*causal_key_gradients)(const LinearHead&, const GradientRows&, RowRange,
                                    PrefixState& adjoint);
};

namespace reference {
inline constexpr LinearKernels kLinear = {.append_keys = AppendKeys,
                                          .read_queries = ReadQueries,
                                          .causal = Causal,
                                          .query_gradients = QueryGradients,
                                          .key_gradients = KeyGradients,
                                          .append_queries = AppendQueries,
                                          .causal_query_gradients = CausalQueryGradients,
                                          .causal_key_gradients = CausalKeyGradients};
}  // namespace reference

namespace cpu {
inline constexpr LinearKernels kLinear = {.append_keys = AppendKeys,
                                          .read_queries = ReadQueries,
                                          .causal = Causal,
                                          .query_gradients = QueryGradients,
                                          .key_gradients = KeyGradients,
                                          .append_queries = AppendQueries,
                                          .causal_query_gradients = CausalQueryGradients,
                                          .causal_key_gradients = CausalKeyGradients};
}  // namespace cpu

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_LINEAR_KERNELS_H_
