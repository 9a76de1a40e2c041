#include "layers/feed_forward.h"

namespace favor::layers {

FeedForward::FeedForward(ParameterSet& parameters, const std::string& name, int64_t width,
                         int64_t ff, Activation activation, double output_gain)
    : ff_(ff),
      activation_(activation),
      up_(parameters, name + ".up", width, ff),
      down_(parameters, name + ".down", ff, width, output_gain) {}

FeedForward::Workspace FeedForward::ReserveWorkspace(Arena& arena, int64_t tokens,
                                                     bool training) const {
  Workspace workspace{.hidden = arena.Take({tokens, ff_}), .grad_hidden = {}};
  if (training) workspace.grad_hidden = arena.Take({tokens, ff_});
  return workspace;
}

void FeedForward::Forward(const Context& context, ConstView x, const Activations& a,
                          const Workspace& w, const kernels::MatmulEpilogue& then, View y) const {
  up_.Forward(context, x, a.inner,
              kernels::ActivationArguments{.f = activation_, .x = a.inner, .y = w.hidden});
  down_.Forward(context, w.hidden, y, then);
}

void FeedForward::Backward(const Context& context, ConstView x, const Activations& a,
                           const Workspace& w, ConstView grad_y, View grad_x) {
  // `hidden` is computed again, which is cheaper than keeping it; grad_hidden becomes the gradient
  // of `inner`.
  down_.BackwardInput(context, grad_y, w.grad_hidden, /*add=*/false,
                      kernels::ActivationGradients{.f = activation_,
                                                   .x = a.inner,
                                                   .grad_y = w.grad_hidden,
                                                   .grad_x = w.grad_hidden,
                                                   .y = w.hidden});
  down_.BackwardWeights(context, w.hidden, grad_y);
  up_.Backward(context, x, w.grad_hidden, grad_x);
}

}  // namespace favor::layers
