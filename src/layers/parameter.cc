#include "layers/parameter.h"

#include <algorithm>
#include <cstring>

#include "core/element.h"
#include "favor/random.h"

namespace favor::layers {

Parameter& ParameterSet::Add(const std::string& name, const Shape& shape, const Initial& initial,
                             bool decays) {
  count_ += shape.Elements();
  all_.push_back(
      std::make_unique<Parameter>(Parameter{.name = name, .shape = shape, .decays = decays}));
  Parameter& parameter = *all_.back();
  if (options_.shapes_only) return parameter;
  parameter.value = Tensor(shape, type());
  if (!options_.draw) return parameter;
  std::vector<double> drawn(static_cast<size_t>(initial.deviation > 0 ? shape.Elements() : 0));
  RandomStream(options_.seed, "weights/" + name).FillNormal(0, drawn);
  for (int64_t i = 0; i < shape.Elements(); ++i) {
    const double normal = drawn.empty() ? 0 : drawn[static_cast<size_t>(i)];
    const auto value = static_cast<float>(initial.mean + initial.deviation * normal);
    StoreElement(parameter.value.view().data(), type(), i, value);
  }
  return parameter;
}

void ParameterSet::ZeroGradients() {
  for (const auto& parameter : all_) {
    if (parameter->grad.shape() != parameter->shape) {
      parameter->grad = Tensor(parameter->shape, type());
    } else {
      std::memset(parameter->grad.view().data(), 0, static_cast<size_t>(parameter->grad.Bytes()));
    }
  }
}

}  // namespace favor::layers
