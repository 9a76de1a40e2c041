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
                          const Workspace& w, View y) const {
  up_.Forward(context, x, a.inner);
  kernels::Activate({.f = activation_, .x = a.inner, .y = w.hidden}, context);
  down_.Forward(context, w.hidden, y);
}

void FeedForward::Backward(const Context& context, ConstView x, const Activations& a,
                           const Workspace& w, ConstView grad_y, View grad_x) {
  // Computed again: cheaper than keeping it.
  kernels::Activate({.f = activation_, .x = a.inner, .y = w.hidden}, context);
  down_.Backward(context, w.hidden, grad_y, w.grad_hidden);
  kernels::ActivateBackward(
      {.f = activation_, .x = a.inner, .grad_y = w.grad_hidden, .grad_x = w.grad_hidden}, context);
  up_.Backward(context, x, w.grad_hidden, grad_x);
}

}  // namespace favor::layers
