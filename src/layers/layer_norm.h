// y = (x − mean)/√(variance + ε)·gain + bias, over each row.
#ifndef FAVOR_LAYERS_LAYER_NORM_H_
#define FAVOR_LAYERS_LAYER_NORM_H_

#include <string>

#include "favor/context.h"
#include "layers/parameter.h"

namespace favor::layers {

struct NormOptions {
  double epsilon;
  double gain = 1;  // first value
};

class LayerNorm {
 public:
  // "<name>.weight", `gain` everywhere at first, and "<name>.bias", [width].
  LayerNorm(ParameterSet& parameters, const std::string& name, int64_t width,
            const NormOptions& options);

  // x, y [rows, width]; `statistics` [rows, 2] receives each row's mean and 1/√(variance + ε).
  void Forward(const Context& context, ConstView x, View statistics, View y) const;
  // Computes the same y again from what Forward left in `statistics`.
  void Again(const Context& context, ConstView x, View statistics, View y) const;
  // grad_x = the gradient, or += with `add`; in the first case grad_y and grad_x may be the same.
  void Backward(const Context& context, ConstView x, ConstView statistics, ConstView grad_y,
                View grad_x, bool add);

 private:
  Parameter *weight_, *bias_;
  double epsilon_;
};

}  // namespace favor::layers

#endif  // FAVOR_LAYERS_LAYER_NORM_H_
