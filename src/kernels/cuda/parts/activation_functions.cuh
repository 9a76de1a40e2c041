// The functions of activation.h and their slopes, of one element.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ACTIVATION_FUNCTIONS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ACTIVATION_FUNCTIONS_CUH_

#include "favor/activation.h"
#include "kernels/cuda/parts/fast_math.cuh"

namespace favor::kernels::cuda {

// f(x) and f'(x).
struct Activated {
  float value, slope;
};

struct Relu {
  __device__ static Activated At(float x) { return {x > 0 ? x : 0.0f, x > 0 ? 1.0f : 0.0f}; }
};

// x·Φ(x), with Φ(−|x|) = ½·erfc z from erfc z = e^(−z²)·(a₁t + … + a₅t⁵), t = 1/(1 + pz), which is
// within 1.5e-7 (Abramowitz and Stegun 7.1.26). The memory gives time for 25 instructions per
// element in bf16, fewer than erff and expf take.
struct Gelu {
  __device__ static Activated At(float x) {
    constexpr float kP = 0.3275911f * 0.70710678f;
    const float t = Reciprocal(1 + kP * fabsf(x)), gauss = Exp2(-0.5f * kLog2E * x * x);
    float tail = 0.5f * 1.061405429f;
    tail = tail * t - 0.5f * 1.453152027f;
    tail = tail * t + 0.5f * 1.421413741f;
    tail = tail * t - 0.5f * 0.284496736f;
    tail = tail * t + 0.5f * 0.254829592f;
    tail *= t * gauss;
    const float distribution = x > 0 ? 1 - tail : tail;
    return {x * distribution, distribution + 0.39894228f * x * gauss};
  }
};

// x·(1 + tanh u)/2 = x/(1 + e^(−2u)) for u = √(2/π)·(x + 0.044715·x³), from e^(−2|u|), which does
// not cancel. Beyond |x| = 15 the step is 0 or 1 and does not move.
struct GeluTanh {
  __device__ static Activated At(float x) {
    constexpr float kTwice = 1.5957691f, kCubic = 0.044715f;  // 2·√(2/π)
    const float bounded = fminf(fmaxf(x, -15.0f), 15.0f), square = bounded * bounded;
    const float u = kTwice * bounded * (1 + kCubic * square);
    const float e = Exp2(-kLog2E * fabsf(u)), part = Reciprocal(1 + e);
    const float step = u < 0 ? e * part : part;
    const float slope = e * part * part * kTwice * (1 + 3 * kCubic * square);
    return {x * step, step + bounded * slope};
  }
};

__device__ inline float ValueOf(Activation f, float x) {
  switch (f) {
    case Activation::kRelu:
      return Relu::At(x).value;
    case Activation::kGelu:
      return Gelu::At(x).value;
    case Activation::kGeluTanh:
      return GeluTanh::At(x).value;
  }
  return 0;
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ACTIVATION_FUNCTIONS_CUH_
