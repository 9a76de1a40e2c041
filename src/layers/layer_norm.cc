#include "layers/layer_norm.h"

#include "kernels/layer_norm.h"

namespace favor::layers {

LayerNorm::LayerNorm(ParameterSet& parameters, const std::string& name, int64_t width,
                     const NormOptions& options)
    : weight_(&parameters.Add(name + ".weight", {width}, {.mean = options.gain}, false)),
      bias_(&parameters.Add(name + ".bias", {width}, {}, false)),
      epsilon_(options.epsilon) {}

void LayerNorm::Forward(const Context& context, ConstView x, View statistics, View y) const {
  kernels::LayerNorm({.x = x,
                      .gain = weight_->read,
                      .bias = bias_->read,
                      .epsilon = epsilon_,
                      .statistics = statistics,
                      .y = y},
                     context);
}

void LayerNorm::Again(const Context& context, ConstView x, View statistics, View y) const {
  kernels::LayerNorm({.x = x,
                      .gain = weight_->read,
                      .bias = bias_->read,
                      .epsilon = epsilon_,
                      .again = true,
                      .statistics = statistics,
                      .y = y},
                     context);
}

void LayerNorm::Backward(const Context& context, ConstView x, ConstView statistics,
                         ConstView grad_y, View grad_x, bool add) {
  kernels::LayerNormBackward({.x = x,
                              .gain = weight_->read,
                              .statistics = statistics,
                              .grad_y = grad_y,
                              .add = add,
                              .grad_x = grad_x,
                              .grad_gain = weight_->grad,
                              .grad_bias = bias_->grad},
                             context);
}

}  // namespace favor::layers
