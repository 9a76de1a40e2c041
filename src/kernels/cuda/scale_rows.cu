#include "kernels/scale_rows.h"

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_group.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "scale rows";

template <class T>
struct Scaling {
  const T *from, *factors;
  int64_t rows, columns;
  T* to;  // may be `from`
};

template <class T>
struct FactorGradients {
  const T* x;
  float* sums;  // [rows], added to
};

template <int kPacket, class T>
__global__ void __launch_bounds__(kElementThreads) ScaleKernel(const Scaling<T> a) {
  ForEachPacket<kPacket>(a.rows * a.columns, [&](int64_t at, auto elements) {
    auto [row, column] = Divide(at, a.columns);
    float values[elements.kValue], factor = ToFloat(a.factors[row]);
    LoadFloats(a.from + at, values);
#pragma unroll
    for (int i = 0; i < elements.kValue; ++i) {
      if (column == a.columns) {
        factor = ToFloat(a.factors[++row]);
        column = 0;
      }
      ++column;
      values[i] *= factor;
    }
    StoreFloats(values, a.to + at);
  });
}

// The same, with the sums of from·x of each row: Σ grad_y·x is the gradient of its factor.
template <int kPacket, class T>
__global__ void __launch_bounds__(kMostThreads)
    ScaleAndSumKernel(const Scaling<T> a, const FactorGradients<T> gradients) {
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y, begin = row * a.columns;
    const int64_t columns = row < a.rows ? a.columns : 0;
    const float factor = row < a.rows ? ToFloat(a.factors[row]) : 0.0f;
    double sum = 0;
    for (int64_t column = kPacket * threadIdx.x; column < columns; column += kPacket * blockDim.x) {
      float values[kPacket], x[kPacket];
      LoadFloats(a.from + begin + column, values);
      LoadFloats(gradients.x + begin + column, x);
#pragma unroll
      for (int i = 0; i < kPacket; ++i) {
        sum += static_cast<double>(values[i]) * static_cast<double>(x[i]);
        values[i] *= factor;
      }
      StoreFloats(values, a.to + begin + column);
    }
    float sums[1] = {static_cast<float>(sum)};
    SumOverGroup(turn, sums);
    if (columns > 0 && threadIdx.x == 0) gradients.sums[row] += sums[0];
  }
}

template <class T>
void Scale(const Scaling<T>& a, const Context& context) {
  if (a.rows * a.columns == 0) return;
  WithPackets<T>(AreAligned(16, {a.from, a.to}), [&](auto packet) {
    ScaleKernel<packet.kValue><<<BlocksForPackets(a.rows * a.columns, packet.kValue),
                                 kElementThreads, 0, StreamOf(context)>>>(a);
  });
  Check(kName);
}

}  // namespace

void ScaleRows(const ScaleRowsArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    Scale(Scaling<T>{.from = ElementsOf<T>(a.x),
                     .factors = ElementsOf<T>(a.factors),
                     .rows = a.y.size(0),
                     .columns = a.y.size(1),
                     .to = ElementsOf<T>(a.y)},
          context);
  });
}

void ScaleRowsBackward(const ScaleRowsGradients& a, const Context& context) {
  WithElements(kName, a.grad_x, [&](auto element) {
    using T = decltype(element);
    const Scaling<T> scaling{.from = ElementsOf<T>(a.grad_y),
                             .factors = ElementsOf<T>(a.factors),
                             .rows = a.grad_x.size(0),
                             .columns = a.grad_x.size(1),
                             .to = ElementsOf<T>(a.grad_x)};
    if (a.grad_factors.empty()) return Scale(scaling, context);
    if (scaling.rows * scaling.columns == 0) return;
    const FactorGradients<T> gradients{.x = ElementsOf<T>(a.x),
                                       .sums = ElementsOf<float>(a.grad_factors)};
    const dim3 block = BlockOfRows(scaling.columns);
    WithRowPackets<T>(scaling.columns, {scaling.from, scaling.to, gradients.x}, [&](auto packet) {
      ScaleAndSumKernel<packet.kValue>
          <<<BlocksFor(scaling.rows, block.y), block, 0, StreamOf(context)>>>(scaling, gradients);
    });
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
