// down(f(up(x))): each token separately, through a wider layer.
#ifndef FAVOR_LAYERS_FEED_FORWARD_H_
#define FAVOR_LAYERS_FEED_FORWARD_H_

#include <memory>
#include <optional>
#include <string>

#include "kernels/activation.h"
#include "layers/arena.h"
#include "layers/linear.h"
#include "layers/linearised_units.h"

namespace favor::layers {

struct FeedForwardShape {
  int64_t width, ff;
  Activation activation = Activation::kGelu;
  double output_gain = 1;
  std::optional<LinearisedShape> linearised;  // f is a product of features, with the same weights
};

class FeedForward {
 public:
  FeedForward(ParameterSet& parameters, const std::string& name, const FeedForwardShape& shape);

  // Draws the sketches of linearised units.
  void Draw(uint64_t seed);

  // What gradients need: the argument of the activation, or the features of linearised units.
  struct Activations {
    View inner;  // [tokens, ff]
    LinearisedUnits::Activations linearised;
  };
  Activations Reserve(Arena& arena, int64_t tokens) const;
  // Buffers that may be overwritten after a call.
  struct Workspace {
    View hidden, grad_hidden;  // [tokens, ff]
    LinearisedUnits::Workspace linearised;
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens, bool training) const;

  // What a decoder keeps of the weights, so that a token need not make it again; empty at first.
  using Kept = std::shared_ptr<const LinearisedUnits::Folded>;

  // `then` is an operation on y; `kept` may be null.
  void Forward(const Context& context, ConstView x, const Activations& a, const Workspace& w,
               const kernels::MatmulEpilogue& then, Kept* kept, View y) const;
  void Backward(const Context& context, ConstView x, const Activations& a, const Workspace& w,
                ConstView grad_y, View grad_x);

 private:
  FeedForwardShape shape_;
  Linear up_, down_;
  std::optional<LinearisedUnits> linearised_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_FEED_FORWARD_H_
