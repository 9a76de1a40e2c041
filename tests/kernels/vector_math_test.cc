// The stated errors of the elementary functions, scalar and on every SIMD target.
#include "kernels/vector_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/vector_math_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

float ExpOfOne(float x) { return hn::GetLane(Exp(hn::Set(FloatTag(), x))); }

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "core/simd.h"

namespace favor::kernels::cpu {

HWY_EXPORT(ExpOfOne);

namespace {

// The largest error of `function` on [low, high]: relative, or absolute.
template <class Function, class Exact>
double Worst(double low, double high, bool relative, const Function& function, const Exact& exact) {
  double worst = 0;
  const int steps = 300'001;
  for (int i = 0; i < steps; ++i) {
    const auto x = static_cast<float>(low + (high - low) * i / (steps - 1));
    const double want = exact(static_cast<double>(x));
    const double error = std::fabs(static_cast<double>(function(x)) - want);
    worst = std::max(worst, relative ? error / std::fabs(want) : error);
  }
  return worst;
}

TEST(VectorMath, ExponentialsAreWithinTheirStatedError) {
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(Worst(-87.3, 88.3, true, &vector_math::Exp, exact), 1.6e-7);
  EXPECT_EQ(vector_math::Exp(0), 1.0f);
  for (const std::string& simd : SimdNames()) {
    UseSimd(simd);
    const auto exp_of_one = [](float x) { return HWY_DYNAMIC_DISPATCH(ExpOfOne)(x); };
    EXPECT_LT(Worst(-87.3, 88.3, true, exp_of_one, exact), 1.6e-7) << simd;
    EXPECT_EQ(exp_of_one(0), 1.0f);
    for (const float x : {-87.4f, -100.0f, -1e4f, -1e30f, -INFINITY})
      EXPECT_EQ(exp_of_one(x), 0.0f);
  }
  UseSimd(SimdNames().front());
}

TEST(VectorMath, OtherFunctionsAreWithinTheirStatedErrors) {
  namespace vm = vector_math;
  const auto worst = [](double low, double high, auto function, auto exact) {
    return Worst(low, high, false, function, exact);
  };
  EXPECT_LT(worst(0, 1, &vm::LogOnePlus, [](double x) { return std::log1p(x); }), 1.4e-7);
  for (const double range : {4.0, 1000.0, 8000.0, 1e6}) {
    const double bound = range <= 8000 ? 1.3e-7 : 1e-7 * range;
    EXPECT_LT(worst(-range, range, &vm::Sine, [](double x) { return std::sin(x); }), bound);
    EXPECT_LT(worst(-range, range, &vm::Cosine, [](double x) { return std::cos(x); }), bound);
  }
  for (const float x : {1e7f, 1e8f, 3e9f, 1e20f, 3e38f}) {
    EXPECT_LE(std::fabs(vm::Sine(x)), 1.0f) << x;
    EXPECT_LE(std::fabs(vm::Cosine(x)), 1.0f) << x;
  }
  EXPECT_LT(worst(-12, 12, &vm::HyperbolicTangent, [](double x) { return std::tanh(x); }), 1.2e-7);
  EXPECT_LT(worst(-8, 8, &vm::ErrorFunction, [](double x) { return std::erf(x); }), 1.6e-7);
  for (const float x : {-1e30f, 1e30f}) {
    EXPECT_EQ(std::fabs(vm::HyperbolicTangent(x)), 1.0f);
    EXPECT_EQ(std::fabs(vm::ErrorFunction(x)), 1.0f);
  }
}

TEST(VectorMath, NotANumberStaysOne) {
  EXPECT_TRUE(std::isnan(vector_math::Exp(NAN)));
  EXPECT_TRUE(std::isnan(vector_math::HyperbolicTangent(NAN)));
}

}  // namespace
}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
