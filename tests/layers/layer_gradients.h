// What tests of layers' gradients share: parameters in double, moved away from their first values.
#ifndef FAVOR_TESTS_LAYERS_LAYER_GRADIENTS_H_
#define FAVOR_TESTS_LAYERS_LAYER_GRADIENTS_H_

#include <gtest/gtest.h>

#include <functional>

#include "layers/parameter.h"
#include "tests/layers/check_gradients.h"

namespace favor {

using layers::ParameterSet;

class LayerGradients : public testing::Test {
 protected:
  // Biases start at 0, where a wrong sign would not show.
  void Shake() {
    parameters_.Allocate();
    for (const auto& parameter : parameters_.all()) {
      const Tensor noise = RandomDoubles(parameter->shape, parameter->name);
      for (int64_t i = 0; i < parameter->shape.Elements(); ++i)
        parameter->value.Data<double>()[i] += 0.2 * noise.Data<double>()[i];
    }
    parameters_.ZeroGradients(context_);
  }
  void ExpectParameterGradients(const std::function<double()>& loss) {
    for (const auto& parameter : parameters_.all())
      ExpectGradient(parameter->name, parameter->value, parameter->grad, loss);
  }

  Context context_{{.threads = 2}};
  ParameterSet parameters_{{.seed = 3, .type = DataType::kF64}};
};

}  // namespace favor

#endif  // FAVOR_TESTS_LAYERS_LAYER_GRADIENTS_H_
