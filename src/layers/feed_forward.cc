#include "layers/feed_forward.h"

namespace favor::layers {

FeedForward::FeedForward(ParameterSet& parameters, const std::string& name, int64_t width,
                         int64_t ff, Activation activation, double output_gain)
    : ff_(ff),
      activation_(activation),
      up_(parameters, name + ".up", width, ff),
      down_(parameters, name + ".down", ff, width, output_gain) {}

FeedForward::Workspace FeedForward::PlanWorkspace(Arena& arena, int64_t tokens,
                                                  bool training) const {
  Workspace workspace{.hidden = arena.Take({tokens, ff_}), .grad_hidden = {}};
  if (training) workspace.grad_hidden = arena.Take({tokens, ff_});
  return workspace;
}

void FeedForward::Activate(const Context& context, const View& inner, const View& hidden) const {
  const int64_t count = inner.shape().Elements();
  if (inner.type() == DataType::kF64) {
    kernels::reference::Activate(activation_, inner.Data<double>(), count, context,
                                 hidden.Data<double>());
  } else {
    kernels::cpu::Activate(activation_, inner.Data<float>(), count, context, hidden.Data<float>());
  }
}

void FeedForward::Forward(const Context& context, ConstView x, const Activations& a,
                          const Workspace& w, View y) const {
  up_.Forward(context, x, a.inner);
  Activate(context, a.inner, w.hidden);
  down_.Forward(context, w.hidden, y);
}

void FeedForward::Backward(const Context& context, ConstView x, const Activations& a,
                           const Workspace& w, ConstView grad_y, View grad_x) {
  Activate(context, a.inner, w.hidden);  // again: cheaper than keeping it
  down_.Backward(context, w.hidden, grad_y, w.grad_hidden);
  const int64_t count = a.inner.shape().Elements();
  if (a.inner.type() == DataType::kF64) {
    auto* grad = w.grad_hidden.Data<double>();
    kernels::reference::ActivateBackward(activation_, a.inner.Data<double>(), grad, count, context,
                                         grad);
  } else {
    auto* grad = w.grad_hidden.Data<float>();
    kernels::cpu::ActivateBackward(activation_, a.inner.Data<float>(), grad, count, context, grad);
  }
  up_.Backward(context, x, w.grad_hidden, grad_x);
}

}  // namespace favor::layers
