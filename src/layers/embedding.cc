#include "layers/embedding.h"

namespace favor::layers {

Embedding::Embedding(ParameterSet& parameters, const std::string& name, const Shape& shape,
                     const EmbeddingOptions& options)
    : weight_(&parameters.Add(name + ".weight", shape, {.deviation = options.deviation}, true)),
      scale_(options.scale) {}

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
