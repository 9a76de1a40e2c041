// A short convolution of each column over neighbouring tokens (Primer's depthwise convolution, So
// et al. 2021): it lets linear attention tell a token from the one before it.
//   decoder: y_t = Σ_i w_i ⊙ x_{t−i},  0 ≤ i < taps      encoder: the same, centred on t
// Tokens before a sequence and padding do not exist: they add nothing.
#ifndef FAVOR_LAYERS_CONVOLUTION_H_
#define FAVOR_LAYERS_CONVOLUTION_H_

#include <string>

#include "favor/context.h"
#include "kernels/sequences.h"
#include "layers/parameter.h"

namespace favor::layers {

using kernels::Sequences;

class Convolution {
 public:
  // "<name>.weight" [taps, columns], w_i in row i.
  Convolution(ParameterSet& parameters, const std::string& name, int64_t taps, int64_t columns,
              bool causal);

  void Forward(const Context& context, const Sequences& sequences, ConstView x, View y) const;
  // Adds to the gradient of w; grad_x must not overlap grad_y.
  void Backward(const Context& context, const Sequences& sequences, ConstView x, ConstView grad_y,
                View grad_x);

 private:
  int64_t ahead_;  // tap i reads the token at t − i + ahead
  Parameter* weight_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_CONVOLUTION_H_
