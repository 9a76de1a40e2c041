#include "kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/ranges.h"
#include "kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Loops without branches, which the compiler turns into code for this target.
struct Normal {
  float distribution, density;
};
HWY_INLINE Normal NormalAt(float x) {
  const float z = 0.70710678f * x, gauss = vector_math::Exp(-z * z);
  return {0.5f + 0.5f * vector_math::ErrorFunctionWith(z, gauss), 0.39894228f * gauss};
}

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
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] * NormalAt(x[i]).distribution;
      break;
    case Activation::kGeluTanh:
      for (int64_t i = 0; i < count; ++i) y[i] = x[i] * StepOf(x[i]).value;
      break;
  }
}

// f(x) and f'(x).
struct Activated {
  float value, slope;
};

template <class F>
HWY_INLINE void BackwardLoop(const F& f, const float* x, const float* grad_y, int64_t count,
                             float* grad_x, float* y) {
  if (y == nullptr) {
    for (int64_t i = 0; i < count; ++i) grad_x[i] = grad_y[i] * f(x[i]).slope;
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Activated activated = f(x[i]);
    grad_x[i] = grad_y[i] * activated.slope;
    y[i] = activated.value;
  }
}

void ActivateBackwardOnTarget(Activation f, const float* x, const float* grad_y, int64_t count,
                              float* grad_x, float* y) {
  switch (f) {
    case Activation::kRelu:
      return BackwardLoop(
          [](float v) {
            return Activated{vector_math::Select(v > 0, v, 0.0f),
                             vector_math::Select(v > 0, 1.0f, 0.0f)};
          },
          x, grad_y, count, grad_x, y);
    case Activation::kGelu:
      return BackwardLoop(
          [](float v) {
            const Normal normal = NormalAt(v);
            return Activated{v * normal.distribution, normal.distribution + v * normal.density};
          },
          x, grad_y, count, grad_x, y);
    case Activation::kGeluTanh:
      return BackwardLoop(
          [](float v) {
            const TanhStep step = StepOf(v);
            return Activated{v * step.value, step.value + v * step.slope};
          },
          x, grad_y, count, grad_x, y);
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

void ActivateRange(const ActivationArguments& a, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ActivateOnTarget)
  (a.f, a.x.Data<float>() + begin, end - begin, a.y.Data<float>() + begin);
}

void ActivateBackwardRange(const ActivationGradients& a, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ActivateBackwardOnTarget)
  (a.f, a.x.Data<float>() + begin, a.grad_y.Data<float>() + begin, end - begin,
   a.grad_x.Data<float>() + begin, a.y.empty() ? nullptr : a.y.Data<float>() + begin);
}

void Activate(const ActivationArguments& a, const Context& context) {
  ParallelForBlocks(context, a.y.shape().Elements(), kTask,
                    [&](int64_t begin, int64_t end) { ActivateRange(a, begin, end); });
}

void ActivateBackward(const ActivationGradients& a, const Context& context) {
  ParallelForBlocks(context, a.grad_x.shape().Elements(), kTask,
                    [&](int64_t begin, int64_t end) { ActivateBackwardRange(a, begin, end); });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
