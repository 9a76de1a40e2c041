// Activations over their whole range, and their slopes; more cases are in layer_cases.cc.
#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace favor {
namespace {

TEST(Activation, FastEqualsReferenceAndItsSlope) {
  const Context context({.threads = 1});
  constexpr int64_t kCount = 4001;
  const auto numbers = [] { return Tensor({kCount}, DataType::kF64); };
  Tensor x = numbers(), ones = numbers(), y = numbers(), slope = numbers(), above = numbers(),
         below = numbers(), up = numbers(), down = numbers();
  for (int64_t i = 0; i < kCount; ++i) {
    const double at = -10 + 0.005 * static_cast<double>(i) + 0.0001;
    x.Data<double>()[i] = at;
    above.Data<double>()[i] = at + 1e-5;
    below.Data<double>()[i] = at - 1e-5;
    ones.Data<double>()[i] = 1;
  }
  const Tensor x32 = x.To(DataType::kF32), ones32 = ones.To(DataType::kF32);
  Tensor y32({kCount}), slope32({kCount});
  for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    kernels::Activate({f, x, y}, context);
    kernels::ActivateBackward({f, x, ones, slope}, context);
    kernels::Activate({f, above, up}, context);
    kernels::Activate({f, below, down}, context);
    kernels::Activate({f, x32, y32}, context);
    kernels::ActivateBackward({f, x32, ones32, slope32}, context);
    for (int64_t i = 0; i < kCount; ++i) {
      const double at = x.Data<double>()[i], exact = slope.Data<double>()[i];
      EXPECT_NEAR(exact, (up.Data<double>()[i] - down.Data<double>()[i]) / 2e-5, 1e-8) << at;
      EXPECT_NEAR(y32.Data<float>()[i], y.Data<double>()[i], 2e-7 * (1 + std::fabs(at))) << at;
      EXPECT_NEAR(slope32.Data<float>()[i], exact, 1e-6) << at;
    }
  }
}

// Both forms of GELU as PyTorch computes them, to as many digits as it prints.
TEST(Activation, IsTheFormula) {
  const Context context({.threads = 1});
  const double x[] = {1, -2, 0.5};
  const auto expect = [&](Activation f, const std::vector<double>& values) {
    double y[3];
    kernels::Activate({f, ConstView(x, {3}), View(y, {3})}, context);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], values[i], 5e-11) << Name(f) << " of " << x[i];
  };
  expect(Activation::kRelu, {1, 0, 0.5});
  expect(Activation::kGelu, {0.8413447461, -0.0455002639, 0.3457312306});
  expect(Activation::kGeluTanh, {0.8411919906, -0.0454023059, 0.3457140098});
}

// Far from 0 an activation is 0 or x, with slopes 0 and 1, and nothing overflows.
TEST(Activation, HasLimits) {
  const Context context({.threads = 1});
  const float x[] = {-1e30f, -1e4f, 1e4f, 1e30f}, ones[] = {1, 1, 1, 1};
  for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    float y[4], slope[4];
    kernels::Activate({f, ConstView(x, {4}), View(y, {4})}, context);
    kernels::ActivateBackward({f, ConstView(x, {4}), ConstView(ones, {4}), View(slope, {4})},
                              context);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(y[i] / std::fabs(x[i]), x[i] > 0 ? 1 : 0, 1e-6) << Name(f) << " of " << x[i];
      EXPECT_NEAR(slope[i], x[i] > 0 ? 1 : 0, 1e-6) << Name(f) << " of " << x[i];
    }
  }
}

}  // namespace
}  // namespace favor
