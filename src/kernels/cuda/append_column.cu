#include "kernels/append_column.h"

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "append column";

// Rows of dim and of dim + 1 elements are never aligned at the same time: threads write packets of
// the results and read single elements, which the L1 cache keeps for the next read.

template <class T>
struct Forward {
  const T *x, *last;
  float offset, scale;
  int64_t rows, dim;
  T* y;
};

template <int kPacket, class T>
__global__ void __launch_bounds__(kElementThreads) ForwardKernel(const Forward<T> a) {
  ForEachPacket<kPacket>(a.rows * (a.dim + 1), [&](int64_t at, auto elements) {
    auto [row, column] = Divide(at, a.dim + 1);
    float values[elements.kValue];
#pragma unroll
    for (float& value : values) {
      if (column < a.dim) {
        value = a.scale * ToFloat(a.x[row * a.dim + column]);
        ++column;
      } else {
        value = a.scale * (a.offset + (a.last == nullptr ? 0.0f : ToFloat(a.last[row])));
        ++row;
        column = 0;
      }
    }
    StoreFloats(values, a.y + at);
  });
}

// The gradient may be one of weights, in f32, from rows that are bf16.
template <class From, class To>
struct Backward {
  const From* grad_y;
  float scale;
  bool add;
  int64_t rows, dim;
  To* grad_x;
  float* grad_last;
};

template <int kPacket, class From, class To>
__global__ void __launch_bounds__(kElementThreads) BackwardKernel(const Backward<From, To> a) {
  ForEachPacket<kPacket>(a.rows * a.dim, [&](int64_t at, auto elements) {
    auto [row, column] = Divide(at, a.dim);
    int64_t from = at + row;
    float sums[elements.kValue] = {};
    if (a.add) LoadFloats(a.grad_x + at, sums);
#pragma unroll
    for (float& sum : sums) {
      if (column == a.dim) {
        ++from;
        column = 0;
      }
      sum += a.scale * ToFloat(a.grad_y[from]);
      ++from;
      ++column;
    }
    StoreFloats(sums, a.grad_x + at);
  });
  if (a.grad_last == nullptr) return;
  for (int64_t row = ThreadOfGrid(); row < a.rows; row += ThreadsOfGrid())
    a.grad_last[row] += a.scale * ToFloat(a.grad_y[row * (a.dim + 1) + a.dim]);
}

}  // namespace

void AppendColumn(const AppendColumnArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const Forward<T> forward{.x = ElementsOf<T>(a.x),
                             .last = ElementsOf<T>(a.last),
                             .offset = static_cast<float>(a.offset),
                             .scale = static_cast<float>(a.scale),
                             .rows = a.x.size(0),
                             .dim = a.x.size(1),
                             .y = ElementsOf<T>(a.y)};
    if (forward.rows == 0) return;
    WithPackets<T>(AreAligned(16, {forward.y}), [&](auto packet) {
      ForwardKernel<packet.kValue>
          <<<BlocksForPackets(forward.rows * (forward.dim + 1), packet.kValue), kElementThreads, 0,
             StreamOf(context)>>>(forward);
    });
    Check(kName);
  });
}

void AppendColumnBackward(const AppendColumnGradients& a, const Context& context) {
  const auto run = [&](auto from, auto to) {
    using From = decltype(from);
    using To = decltype(to);
    const Backward<From, To> backward{.grad_y = ElementsOf<From>(a.grad_y),
                                      .scale = static_cast<float>(a.scale),
                                      .add = a.add,
                                      .rows = a.grad_x.size(0),
                                      .dim = a.grad_x.size(1),
                                      .grad_x = ElementsOf<To>(a.grad_x),
                                      .grad_last = ElementsOf<float>(a.grad_last)};
    if (backward.rows == 0) return;
    WithPackets<To>(AreAligned(16, {backward.grad_x}), [&](auto packet) {
      BackwardKernel<packet.kValue>
          <<<BlocksForPackets(backward.rows * std::max<int64_t>(backward.dim, 1), packet.kValue),
             kElementThreads, 0, StreamOf(context)>>>(backward);
    });
    Check(kName);
  };
  WithElements(kName, a.grad_x,
               [&](auto to) { WithElements(kName, a.grad_y, [&](auto from) { run(from, to); }); });
}

}  // namespace favor::kernels::cuda
