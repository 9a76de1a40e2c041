#include "kernels/activation.h"

#include "kernels/cuda/parts/activation_functions.cuh"
#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "activation";

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
