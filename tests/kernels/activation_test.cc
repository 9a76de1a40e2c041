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
  for (const Activation f : {Activation::kRelu, Activation::kGelu}) {
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

}  // namespace
}  // namespace favor
