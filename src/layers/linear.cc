#include "layers/linear.h"

#include <cmath>

#include "kernels/column_sums.h"

namespace favor::layers {

Linear::Linear(ParameterSet& parameters, const std::string& name, int64_t in, int64_t out,
               double gain)
    : weight_(&parameters.Add(name + ".weight", {out, in},
                              {.deviation = gain / std::sqrt(static_cast<double>(in))}, true)),
      bias_(&parameters.Add(name + ".bias", {out}, {}, false)) {
  weight_->is_stored = true;
}

void Linear::Forward(const Context& context, ConstView x, View y,
                     const kernels::MatmulEpilogue& then) const {
  kernels::Matmul(
      {.a = x, .b = kernels::Transposed(weight_->read), .c = y, .bias = bias_->read, .then = then},
      context);
}

void Linear::Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                      bool add) {
  BackwardWeights(context, x, grad_y);
  BackwardInput(context, grad_y, grad_x, add);
}

void Linear::BackwardInput(const Context& context, ConstView grad_y, View grad_x, bool add,
                           const kernels::MatmulEpilogue& then) const {
  kernels::Matmul({.a = grad_y, .b = weight_->read, .c = grad_x, .add = add, .then = then},
                  context);
}

void Linear::BackwardWeights(const Context& context, ConstView x, ConstView grad_y) {
  kernels::AddColumnSums({.rows = grad_y, .sums = bias_->grad}, context);
  kernels::Matmul({kernels::Transposed(grad_y), x, weight_->grad, /*add=*/weight_->Adds()},
                  context);
}

}  // namespace favor::layers
