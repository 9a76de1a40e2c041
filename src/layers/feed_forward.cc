#include "layers/feed_forward.h"

namespace favor::layers {

FeedForward::FeedForward(ParameterSet& parameters, const std::string& name,
                         const FeedForwardShape& shape)
    : shape_(shape),
      up_(parameters, name + ".up", shape.width, shape.ff),
      down_(parameters, name + ".down", shape.ff, shape.width, shape.output_gain) {
  if (shape.linearised) linearised_.emplace(parameters, name, up_, down_, *shape.linearised);
}

void FeedForward::Draw(uint64_t seed) {
  if (linearised_) linearised_->Draw(seed);
}

FeedForward::Activations FeedForward::Reserve(Arena& arena, int64_t tokens) const {
  if (linearised_) return {.inner = {}, .linearised = linearised_->Reserve(arena, tokens)};
  return {.inner = arena.Take({tokens, shape_.ff}), .linearised = {}};
}

FeedForward::Workspace FeedForward::ReserveWorkspace(Arena& arena, int64_t tokens,
                                                     bool training) const {
  Workspace workspace;
  if (linearised_) {
    if (training) workspace.linearised = linearised_->ReserveWorkspace(arena, tokens);
    return workspace;
  }
  workspace.hidden = arena.Take({tokens, shape_.ff});
  if (training) workspace.grad_hidden = arena.Take({tokens, shape_.ff});
  return workspace;
}

void FeedForward::Forward(const Context& context, ConstView x, const Activations& a,
                          const Workspace& w, const kernels::MatmulEpilogue& then, Kept* kept,
                          View y) const {
  if (linearised_) return linearised_->Forward(context, x, a.linearised, then, kept, y);
  up_.Forward(context, x, a.inner,
              kernels::ActivationArguments{.f = shape_.activation, .x = a.inner, .y = w.hidden});
  down_.Forward(context, w.hidden, y, then);
}

void FeedForward::Backward(const Context& context, ConstView x, const Activations& a,
                           const Workspace& w, ConstView grad_y, View grad_x) {
  if (linearised_)
    return linearised_->Backward(context, a.linearised, w.linearised, grad_y, grad_x);
  // `hidden` is computed again, which is cheaper than keeping it; grad_hidden becomes the gradient
  // of `inner`.
  down_.BackwardInput(context, grad_y, w.grad_hidden, /*add=*/false,
                      kernels::ActivationGradients{.f = shape_.activation,
                                                   .x = a.inner,
                                                   .grad_y = w.grad_hidden,
                                                   .grad_x = w.grad_hidden,
                                                   .y = w.hidden});
  down_.BackwardWeights(context, w.hidden, grad_y);
  up_.Backward(context, x, w.grad_hidden, grad_x);
}

}  // namespace favor::layers
