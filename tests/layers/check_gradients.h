// Gradients against central differences, in double.
#ifndef FAVOR_TESTS_LAYERS_CHECK_GRADIENTS_H_
#define FAVOR_TESTS_LAYERS_CHECK_GRADIENTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "favor/random.h"
#include "favor/tensor.h"

namespace favor {

inline Tensor RandomDoubles(const Shape& shape, const std::string& name) {
  Tensor tensor(shape, DataType::kF64);
  std::vector<double> values(static_cast<size_t>(shape.Elements()));
  RandomStream(11, name).FillNormal(0, values);
  std::ranges::copy(values, tensor.Data<double>());
  return tensor;
}

inline double WeightedSum(const Tensor& weights, const Tensor& values) {
  double sum = 0;
  for (int64_t i = 0; i < weights.shape().Elements(); ++i)
    sum += weights.Data<double>()[i] * values.Data<double>()[i];
  return sum;
}

// Checks `gradient` of `loss` with respect to `values` at up to `most` elements, relative to the
// largest gradient of the array.
inline void ExpectGradient(const std::string& name, View values, ConstView gradient,
                           const std::function<double()>& loss, double tolerance = 1e-7,
                           int64_t most = 1000) {
  const int64_t count = values.shape().Elements(), stride = std::max<int64_t>(1, count / most);
  double* x = values.Data<double>();
  double largest = 1e-2;  // differences themselves are only known to 1e-9
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::fabs(gradient.Data<double>()[i]));
  for (int64_t i = 0; i < count; i += stride) {
    // Differences over one and two steps: the error falls with the fourth power of the step.
    const double at = x[i], step = 1e-5;
    const auto difference = [&](double by) {
      x[i] = at + by;
      const double above = loss();
      x[i] = at - by;
      const double below = loss();
      x[i] = at;
      return above - below;
    };
    const double slope = (8 * difference(step) - difference(2 * step)) / (12 * step);
    EXPECT_NEAR(gradient.Data<double>()[i], slope, tolerance * largest) << name << " [" << i << "]";
  }
}

}  // namespace favor

#endif  // FAVOR_TESTS_LAYERS_CHECK_GRADIENTS_H_
