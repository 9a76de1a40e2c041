#include "kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Loops without branches, which the compiler turns into code for this target.
HWY_INLINE float NormalDistribution(float x) {
  return 0.5f + 0.5f * vector_math::ErrorFunction(0.70710678f * x);
}
HWY_INLINE float NormalDensity(float x) { return 0.39894228f * vector_math::Exp(-0.5f * x * x); }

// (1 + tanh u)/2 = 1/(1 + e^(−2u)) for u = √(2/π)·(x + 0.044715·x³), and its slope, from e^(−2|u|),
// which does not cancel. Beyond |x| = 15 the step is 0 or 1 and does not move.
struct TanhStep {
  float value, slope;
};
HWY_INLINE TanhStep StepOf(float x) {
  constexpr float kTwice = 1.5957691f, kCubic = 0.044715f;  // 2·√(2/π)
  x = vector_math::Select(x > 15, 15.0f, vector_math::Select(x < -15, -15.0f, x));
  const float u = kTwice * (x + kCubic * x * x * x);
  const float e = vector_math::Exp(vector_math::Select(u < 0, u, -u)), part = 1 / (1 + e);
  return {vector_math::Select(u < 0, e, 1.0f) * part,
          e * part * part * kTwice * (1 + 3 * kCubic * x * x)};
}

void ActivateOnTarget(Activation f, const float* x, int64_t count, float* y) {
  switch (f) {
    case Activation::kRelu:
      for (int64_t i = 0; i < count; ++i) y[i] = vector_math::Select(x[i] > 0, x[i], 0.0f);
      break;
    case Activation::kGelu:
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] * NormalDistribution(x[i]);
      break;
    case Activation::kGeluTanh:
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] * StepOf(x[i]).value;
      break;
  }
}

void ActivateBackwardOnTarget(Activation f, const float* x, const float* grad_y, int64_t count,
                              float* grad_x) {
  switch (f) {
    case Activation::kRelu:
      for (int64_t i = 0; i < count; ++i)
        grad_x[i] = vector_math::Select(x[i] > 0, grad_y[i], 0.0f);
      break;
    case Activation::kGelu:
      for (int64_t i = 0; i < count; ++i)
        grad_x[i] = grad_y[i] * (NormalDistribution(x[i]) + x[i] * NormalDensity(x[i]));
      break;
    case Activation::kGeluTanh:
      for (int64_t i = 0; i < count; ++i) {
        const TanhStep step = StepOf(x[i]);
        grad_x[i] = grad_y[i] * (step.value + x[i] * step.slope);
      }
      break;
  }
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ActivateOnTarget);
HWY_EXPORT(ActivateBackwardOnTarget);

namespace {
constexpr int64_t kTask = 16384;
}

void Activate(const ActivationArguments& a, const Context& context) {
  const float* x = a.x.Data<float>();
  float* y = a.y.Data<float>();
  ParallelForBlocks(context, a.y.shape().Elements(), kTask, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ActivateOnTarget)(a.f, x + begin, end - begin, y + begin);
  });
}

void ActivateBackward(const ActivationGradients& a, const Context& context) {
  const float *x = a.x.Data<float>(), *grad_y = a.grad_y.Data<float>();
  float* grad_x = a.grad_x.Data<float>();
  ParallelForBlocks(context, a.grad_x.shape().Elements(), kTask, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ActivateBackwardOnTarget)
    (a.f, x + begin, grad_y + begin, end - begin, grad_x + begin);
  });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
