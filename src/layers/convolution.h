// A short convolution of each column over neighbouring tokens (Primer's depthwise convolution, So
// et al. 2021): it lets linear attention tell a token from the one before it.
//   decoder: y_t = Σ_i w_i ⊙ x_{t−i},  0 ≤ i < taps      encoder: the same, centred on t
// Tokens before a sequence and padding do not exist: they add nothing.
#ifndef FAVOR_LAYERS_CONVOLUTION_H_
#define FAVOR_LAYERS_CONVOLUTION_H_

#include <cstddef>
#include <vector>

#include "favor/context.h"
#include "kernels/sequences.h"
#include "layers/named_columns.h"
#include "layers/parameter.h"

namespace favor::layers {

using kernels::Sequences;

class Convolution {
 public:
  // For each part "<name>.weight" [taps, columns], w_i in row i.
  Convolution(ParameterSet& parameters, const std::vector<NamedColumns>& parts, int64_t taps,
              bool causal);

  // x and y [rows, columns of all parts from part `first` on].
  void Forward(const Context& context, const Sequences& sequences, ConstView x, View y,
               size_t first = 0) const;
  // Forward for rows that follow those of `history`, [batch, any, columns]; of a decoder.
  void Continue(const Context& context, const Sequences& sequences, ConstView history, ConstView x,
                View y, size_t first = 0) const;
  // Adds to the gradients of w; grad_x must not overlap grad_y.
  void Backward(const Context& context, const Sequences& sequences, ConstView x, ConstView grad_y,
                View grad_x, size_t first = 0);

 private:
  std::vector<ConstView> WeightsFrom(size_t first) const;

  int64_t ahead_;  // tap i reads the token at t − i + ahead
  std::vector<Parameter*> weights_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_CONVOLUTION_H_
