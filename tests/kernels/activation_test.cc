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
  for (const Activation f : {Activation::kRelu, Activation::kGelu}) {
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

}  // namespace
}  // namespace favor
