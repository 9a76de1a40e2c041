#include "kernels/cpu/lanes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace favor::kernels::cpu {
namespace {

TEST(Exp, IsWithinItsStatedError) {
  double worst = 0;
  for (double x = -87.29; x < 88; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(argument));
    worst = std::max(worst, std::fabs(static_cast<double>(Exp(Fill(argument))[3]) / want - 1));
  }
  EXPECT_LT(worst, 2.5e-7);
  EXPECT_EQ(Exp(Fill(0.0f))[0], 1.0f);
}

TEST(Exp, IsZeroFarBelow) {
  for (const float x : {-87.31f, -100.0f, -1e4f, -1e30f, -INFINITY})
    EXPECT_EQ(Exp(Fill(x))[5], 0.0f) << x;
}

}  // namespace
}  // namespace favor::kernels::cpu
