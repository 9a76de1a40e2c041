// down(f(up(x))): each token separately, through a wider layer.
#ifndef FAVOR_LAYERS_FEED_FORWARD_H_
#define FAVOR_LAYERS_FEED_FORWARD_H_

#include <string>

#include "kernels/activation.h"
#include "layers/arena.h"
#include "layers/linear.h"

namespace favor::layers {

class FeedForward {
 public:
  FeedForward(ParameterSet& parameters, const std::string& name, int64_t width, int64_t ff,
              Activation activation, double output_gain);

  // What gradients need: the argument of the activation.
  struct Activations {
    View inner;  // [tokens, ff]
  };
  Activations Reserve(Arena& arena, int64_t tokens) const { return {arena.Take({tokens, ff_})}; }
  // Buffers that may be overwritten after a call.
  struct Workspace {
    View hidden, grad_hidden;  // [tokens, ff]
  };
  Workspace ReserveWorkspace(Arena& arena, int64_t tokens, bool training) const;

  // `then` is an operation on y.
  void Forward(const Context& context, ConstView x, const Activations& a, const Workspace& w,
               const kernels::MatmulEpilogue& then, View y) const;
  void Backward(const Context& context, ConstView x, const Activations& a, const Workspace& w,
                ConstView grad_y, View grad_x);

 private:
  int64_t ff_;
  Activation activation_;
  Linear up_, down_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_FEED_FORWARD_H_
