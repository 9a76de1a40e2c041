#include "kernels/activation.h"

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "activation";

constexpr float kLog2E = 1.44269504f;

// 2^x for x ≤ 0, within two roundings of 1, and 1/x for x ≥ 1: one instruction each.
__device__ float PowerOfTwo(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ float Reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

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
    const float t = Reciprocal(1 + kP * fabsf(x)), gauss = PowerOfTwo(-0.5f * kLog2E * x * x);
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
    const float e = PowerOfTwo(-kLog2E * fabsf(u)), part = Reciprocal(1 + e);
    const float step = u < 0 ? e * part : part;
    const float slope = e * part * part * kTwice * (1 + 3 * kCubic * square);
    return {x * step, step + bounded * slope};
  }
};

// Calls body(Count<elements>, first elements) for this thread's elements, kAtATime packets of
// neighbours at once: a body loads all of them before it works, so that more are on their way.
// Where there are no elements, the first is `count`.
constexpr int kAtATime = 2;
template <int kPacket, class Body>
__device__ void ForEachPackets(int64_t count, const Body& body) {
  const auto for_each = [&](auto elements, int64_t from, int64_t to) {
    for (int64_t i = from + ThreadOfGrid() * elements.kValue; i < to;
         i += kAtATime * ThreadsOfGrid() * elements.kValue) {
      int64_t at[kAtATime];
#pragma unroll
      for (int u = 0; u < kAtATime; ++u) {
        at[u] = i + u * ThreadsOfGrid() * elements.kValue;
        if (at[u] >= to) at[u] = count;
      }
      body(elements, at);
    }
  };
  const int64_t whole = count / kPacket * kPacket;
  for_each(Count<kPacket>(), 0, whole);
  if constexpr (kPacket > 1) for_each(Count<1>(), whole, count);
}

template <class F, int kPacket, class T>
__global__ void __launch_bounds__(kElementThreads) ForwardKernel(const T* x, int64_t count, T* y) {
  ForEachPackets<kPacket>(count, [&](auto elements, const auto& at) {
    Packed<T, elements.kValue> in[kAtATime];
#pragma unroll
    for (int u = 0; u < kAtATime; ++u) {
      if (at[u] < count) in[u].Load(x + at[u]);
    }
#pragma unroll
    for (int u = 0; u < kAtATime; ++u) {
      if (at[u] >= count) break;
      float values[elements.kValue];
#pragma unroll
      for (int i = 0; i < elements.kValue; ++i) values[i] = F::At(in[u][i]).value;
      StoreFloats(values, y + at[u]);
    }
  });
}

template <class F, int kPacket, class T>
__global__ void __launch_bounds__(kElementThreads)
    BackwardKernel(const T* x, const T* grad_y, int64_t count, T* grad_x, T* y) {
  ForEachPackets<kPacket>(count, [&](auto elements, const auto& at) {
    Packed<T, elements.kValue> in[kAtATime], grads[kAtATime];
#pragma unroll
    for (int u = 0; u < kAtATime; ++u) {
      if (at[u] < count) in[u].Load(x + at[u]);
      if (at[u] < count) grads[u].Load(grad_y + at[u]);
    }
#pragma unroll
    for (int u = 0; u < kAtATime; ++u) {
      if (at[u] >= count) break;
      float values[elements.kValue], grad[elements.kValue];
#pragma unroll
      for (int i = 0; i < elements.kValue; ++i) {
        const Activated activated = F::At(in[u][i]);
        grad[i] = grads[u][i] * activated.slope;
        values[i] = activated.value;
      }
      StoreFloats(grad, grad_x + at[u]);
      if (y != nullptr) StoreFloats(values, y + at[u]);
    }
  });
}

template <class Body>
void WithFunction(Activation f, const Body& body) {
  switch (f) {
    case Activation::kRelu:
      return body(Relu());
    case Activation::kGelu:
      return body(Gelu());
    case Activation::kGeluTanh:
      return body(GeluTanh());
  }
}

}  // namespace

void Activate(const ActivationArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const T* x = ElementsOf<T>(a.x);
    T* y = ElementsOf<T>(a.y);
    const int64_t count = a.y.shape().Elements();
    if (count == 0) return;
    WithPackets<T>(AreAligned(16, {x, y}), [&](auto packet) {
      WithFunction(a.f, [&](auto f) {
        ForwardKernel<decltype(f), packet.kValue>
            <<<BlocksForPackets(count, kAtATime * packet.kValue), kElementThreads, 0,
               StreamOf(context)>>>(x, count, y);
      });
    });
    Check(kName);
  });
}

void ActivateBackward(const ActivationGradients& a, const Context& context) {
  WithElements(kName, a.grad_x, [&](auto element) {
    using T = decltype(element);
    const T *x = ElementsOf<T>(a.x), *grad_y = ElementsOf<T>(a.grad_y);
    T *grad_x = ElementsOf<T>(a.grad_x), *y = ElementsOf<T>(a.y);
    const int64_t count = a.grad_x.shape().Elements();
    if (count == 0) return;
    WithPackets<T>(AreAligned(16, {x, grad_y, grad_x, y}), [&](auto packet) {
      WithFunction(a.f, [&](auto f) {
        BackwardKernel<decltype(f), packet.kValue>
            <<<BlocksForPackets(count, kAtATime * packet.kValue), kElementThreads, 0,
               StreamOf(context)>>>(x, grad_y, count, grad_x, y);
      });
    });
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
