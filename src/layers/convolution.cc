#include "layers/convolution.h"

#include <cmath>

#include "kernels/convolution.h"

namespace favor::layers {

Convolution::Convolution(ParameterSet& parameters, const std::string& name, int64_t taps,
                         int64_t columns, bool causal)
    : ahead_(causal ? 0 : taps / 2),
      weight_(&parameters.Add(name + ".weight", {taps, columns},
                              {.deviation = 1 / std::sqrt(static_cast<double>(taps))}, true)) {}

void Convolution::Forward(const Context& context, const Sequences& sequences, ConstView x,
                          View y) const {
  kernels::Convolution(
      {.x = x, .sequences = sequences, .weight = weight_->read, .ahead = ahead_, .y = y}, context);
}

void Convolution::Backward(const Context& context, const Sequences& sequences, ConstView x,
                           ConstView grad_y, View grad_x) {
  kernels::ConvolutionBackward({.x = x,
                                .sequences = sequences,
                                .weight = weight_->read,
                                .ahead = ahead_,
                                .grad_y = grad_y,
                                .grad_x = grad_x,
                                .grad_weight = weight_->grad},
                               context);
}

}  // namespace favor::layers
