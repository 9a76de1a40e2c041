#include "layers/embedding.h"

#include <cmath>

namespace favor::layers {

Embedding::Embedding(ParameterSet& parameters, const std::string& name, const Shape& shape,
                     double deviation)
    : weight_(&parameters.Add(name + ".weight", shape, {.deviation = deviation}, true)),
      scale_(std::sqrt(static_cast<double>(shape[1]))) {}

void Embedding::Forward(const Context& context, const kernels::TableRows& rows, bool add,
                        View y) const {
  kernels::Embedding({.table = weight_->read, .rows = rows, .scale = scale_, .add = add, .y = y},
                     context);
}

void Embedding::Backward(const Context& context, const kernels::TableRows& rows, ConstView grad_y) {
  kernels::EmbeddingBackward(
      {.grad_y = grad_y, .rows = rows, .scale = scale_, .grad_table = weight_->grad}, context);
}

}  // namespace favor::layers
