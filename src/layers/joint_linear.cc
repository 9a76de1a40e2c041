#include "layers/joint_linear.h"

#include <cmath>

#include "kernels/column_sums.h"
#include "kernels/matmul.h"

namespace favor::layers {
namespace {

// Arrays of parameters that follow each other, as one that begins as `first` does.
template <class AnyView>
AnyView Joint(const AnyView& first, std::span<Parameter* const> parameters) {
  int64_t rows = 0;
  for (const Parameter* parameter : parameters) rows += parameter->shape[0];
  Shape shape = first.shape();
  shape = shape.rank() == 1 ? Shape{rows} : Shape{rows, shape[1]};
  return {first.data(), first.type(), shape, RowMajorStrides(shape), first.device()};
}

}  // namespace

JointLinear::JointLinear(ParameterSet& parameters, const std::vector<NamedColumns>& parts,
                         int64_t in) {
  const auto place = [](const std::vector<Parameter*>& before) {
    return before.empty() ? Place::kAligned : Place::kBehind;
  };
  for (const NamedColumns& part : parts) {
    weights_.push_back(&parameters.Add(part.name + ".weight", {part.columns, in},
                                       {.deviation = 1 / std::sqrt(static_cast<double>(in))}, true,
                                       place(weights_)));
    weights_.back()->is_stored = true;
  }
  for (const NamedColumns& part : parts) {
    biases_.push_back(
        &parameters.Add(part.name + ".bias", {part.columns}, {}, false, place(biases_)));
  }
}

void JointLinear::Forward(const Context& context, ConstView x, View y, size_t first) const {
  const std::span weights = std::span(weights_).subspan(first),
                  biases = std::span(biases_).subspan(first);
  kernels::Matmul({.a = x,
                   .b = kernels::Transposed(Joint(weights[0]->read, weights)),
                   .c = y,
                   .bias = Joint(biases[0]->read, biases)},
                  context);
}

void JointLinear::Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                           size_t first) {
  const std::span weights = std::span(weights_).subspan(first),
                  biases = std::span(biases_).subspan(first);
  kernels::AddColumnSums({.rows = grad_y, .sums = Joint(biases[0]->grad, biases)}, context);
  // A step stores the gradients of all of them, or of none.
  const bool adds = weights[0]->Adds();
  for (Parameter* weight : weights.subspan(1)) weight->Adds();
  kernels::Matmul({kernels::Transposed(grad_y), x, Joint(weights[0]->grad, weights), /*add=*/adds},
                  context);
  kernels::Matmul({.a = grad_y, .b = Joint(weights[0]->read, weights), .c = grad_x}, context);
}

}  // namespace favor::layers
