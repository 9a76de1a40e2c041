#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace favor {
namespace {

TEST(Activation, FastEqualsReferenceAndItsSlope) {
  const Context context({.threads = 1});
  constexpr int64_t kCount = 4001;
  std::vector<double> x(kCount), ones(kCount, 1.0), y(kCount), slope(kCount), above(kCount),
      below(kCount), up(kCount), down(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i);
    x[at] = -10 + 0.005 * static_cast<double>(i) + 0.0001;
    above[at] = x[at] + 1e-5;
    below[at] = x[at] - 1e-5;
  }
  for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    kernels::reference::Activate(f, x.data(), kCount, context, y.data());
    kernels::reference::ActivateBackward(f, x.data(), ones.data(), kCount, context, slope.data());
    kernels::reference::Activate(f, above.data(), kCount, context, up.data());
    kernels::reference::Activate(f, below.data(), kCount, context, down.data());
    std::vector<float> x32(x.begin(), x.end()), y32(kCount), slope32(kCount), ones32(kCount, 1.0f);
    kernels::cpu::Activate(f, x32.data(), kCount, context, y32.data());
    kernels::cpu::ActivateBackward(f, x32.data(), ones32.data(), kCount, context, slope32.data());
    for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) {
      EXPECT_NEAR(slope[i], (up[i] - down[i]) / 2e-5, 1e-8) << x[i];
      EXPECT_NEAR(y32[i], y[i], 2e-7 * (1 + std::fabs(x[i]))) << x[i];
      EXPECT_NEAR(slope32[i], slope[i], 1e-6) << x[i];
    }
  }
}

// Both kinds of GELU as PyTorch computes them, to as many digits as it prints.
TEST(Activation, IsTheFormula) {
  const Context context({.threads = 1});
  const double x[] = {1, -2, 0.5};
  const auto expect = [&](Activation f, const std::vector<double>& values) {
    double y[3];
    kernels::reference::Activate(f, x, 3, context, y);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], values[i], 5e-11) << Name(f) << " of " << x[i];
  };
  expect(Activation::kRelu, {1, 0, 0.5});
  expect(Activation::kGelu, {0.8413447461, -0.0455002639, 0.3457312306});
  expect(Activation::kGeluTanh, {0.8411919906, -0.0454023059, 0.3457140098});
}

// Far from 0 it is 0 or x, with slopes 0 and 1, and nothing overflows.
TEST(Activation, HasLimits) {
  const Context context({.threads = 1});
  const float x[] = {-1e30f, -1e4f, 1e4f, 1e30f}, ones[] = {1, 1, 1, 1};
  for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    float y[4], slope[4];
    kernels::cpu::Activate(f, x, 4, context, y);
    kernels::cpu::ActivateBackward(f, x, ones, 4, context, slope);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(y[i] / std::fabs(x[i]), x[i] > 0 ? 1 : 0, 1e-6) << Name(f) << " of " << x[i];
      EXPECT_NEAR(slope[i], x[i] > 0 ? 1 : 0, 1e-6) << Name(f) << " of " << x[i];
    }
  }
}

}  // namespace
}  // namespace favor
