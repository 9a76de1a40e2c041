#include "layers/head_features.h"

#include <cmath>

#include "kernels/matmul.h"

namespace favor::layers {

HeadFeatures::HeadFeatures(ParameterSet& parameters, const std::string& name, int64_t heads,
                           int64_t from, int64_t to)
    : weight_(&parameters.Add(name + ".weight", {heads, to, from},
                              {.deviation = 1 / std::sqrt(static_cast<double>(from))}, true)) {}

void HeadFeatures::Forward(const Context& context, ConstView x, View y) const {
  const int64_t heads = weight_->shape[0], to = weight_->shape[1], from = weight_->shape[2];
  for (int64_t head = 0; head < heads; ++head)
    kernels::Matmul({.a = x.Range(1, head * from, from),
                     .b = kernels::Transposed(weight_->read.At(head)),
                     .c = y.Range(1, head * to, to)},
                    context);
}

void HeadFeatures::Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x) {
  const int64_t heads = weight_->shape[0], to = weight_->shape[1], from = weight_->shape[2];
  for (int64_t head = 0; head < heads; ++head) {
    const ConstView gradient = grad_y.Range(1, head * to, to);
    kernels::Matmul({.a = kernels::Transposed(gradient),
                     .b = x.Range(1, head * from, from),
                     .c = weight_->grad.At(head),
                     .add = true},
                    context);
    kernels::Matmul(
        {.a = gradient, .b = weight_->read.At(head), .c = grad_x.Range(1, head * from, from)},
        context);
  }
}

}  // namespace favor::layers
