#include "kernels/cpu/simd/dot.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/dot.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Loops without branches, which the compiler turns into code for this target.
double DotOnTarget(const float* x, const float* y, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * y[i + lane];
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * y[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(DotOnTarget);

double DotOfFloats(const float* x, const float* y, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(DotOnTarget)(x, y, count);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
