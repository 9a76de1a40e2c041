#include "layers/convolution.h"

#include <cmath>

#include "kernels/convolution.h"

namespace favor::layers {

Convolution::Convolution(ParameterSet& parameters, const std::vector<NamedColumns>& parts,
                         int64_t taps, bool causal)
    : ahead_(causal ? 0 : taps / 2) {
  const double deviation = 1 / std::sqrt(static_cast<double>(taps));
  for (const auto& [name, columns] : parts) {
    weights_.push_back(
        &parameters.Add(name + ".weight", {taps, columns}, {.deviation = deviation}, true));
  }
}

std::vector<ConstView> Convolution::WeightsFrom(size_t first) const {
  std::vector<ConstView> weights;
  for (size_t part = first; part < weights_.size(); ++part) weights.push_back(weights_[part]->read);
  return weights;
}

void Convolution::Forward(const Context& context, const Sequences& sequences, ConstView x, View y,
                          size_t first) const {
  kernels::Convolution(
      {.x = x, .sequences = sequences, .weights = WeightsFrom(first), .ahead = ahead_, .y = y},
      context);
}

void Convolution::Continue(const Context& context, const Sequences& sequences, ConstView history,
                           ConstView x, View y, size_t first) const {
  kernels::Convolution({.x = x,
                        .sequences = sequences,
                        .weights = WeightsFrom(first),
                        .history = history,
                        .ahead = ahead_,
                        .y = y},
                       context);
}

void Convolution::Backward(const Context& context, const Sequences& sequences, ConstView x,
                           ConstView grad_y, View grad_x, size_t first) {
  std::vector<View> grad_weights;
  for (size_t part = first; part < weights_.size(); ++part)
    grad_weights.push_back(weights_[part]->grad);
  kernels::ConvolutionBackward({.x = x,
                                .sequences = sequences,
                                .weights = WeightsFrom(first),
                                .ahead = ahead_,
                                .grad_y = grad_y,
                                .grad_x = grad_x,
                                .grad_weights = grad_weights},
                               context);
}

}  // namespace favor::layers
