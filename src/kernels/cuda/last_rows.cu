// A thread moves the rows of its columns in order, some at a time: none is overwritten before it
// has been read.
#include "kernels/last_rows.h"

#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "last rows";
constexpr int kThreads = 64;
constexpr int kAtOnce = 4;

template <class T>
struct Keep {
  const T* rows;
  int64_t row_stride, batch, length, most, columns;
  T* kept;
};

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) KeepKernel(const Keep<T> a) {
  using Elements = Packet<T, kCount>;
  const int64_t packets = a.columns / kCount, all = a.batch * packets;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= all) return;
  const Quotient at = Divide(index, packets);
  const T* rows = a.rows + at.quotient * a.length * a.row_stride + at.rest * kCount;
  T* kept = a.kept + at.quotient * a.most * a.columns + at.rest * kCount;
  for (int64_t first = 0; first < a.most; first += kAtOnce) {
    Elements moved[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = a.length - a.most + first + i;  // of the new rows
      if (first + i >= a.most) continue;
      moved[i] = *reinterpret_cast<const Elements*>(row < 0 ? kept + (a.most + row) * a.columns
                                                            : rows + row * a.row_stride);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < a.most)
        *reinterpret_cast<Elements*>(kept + (first + i) * a.columns) = moved[i];
    }
  }
}

}  // namespace

void KeepLastRows(const KeepLastRowsArguments& a, const Context& context) {
  if (a.kept.shape().Elements() == 0) return;
  WithElements(kName, a.kept, [&](auto element) {
    using T = decltype(element);
    const int64_t batch = a.kept.size(0), columns = a.kept.size(2);
    const Keep<T> keep{.rows = ElementsOf<T>(a.rows),
                       .row_stride = a.rows.stride(0),
                       .batch = batch,
                       .length = a.rows.size(0) / batch,
                       .most = a.kept.size(1),
                       .columns = columns,
                       .kept = ElementsOf<T>(a.kept)};
    const bool aligned = keep.row_stride % kFullPacket<T> == 0;
    WithRowPackets<T>(aligned ? columns : 1, {keep.rows, keep.kept}, [&](auto count) {
      constexpr int kCount = decltype(count)::kValue;
      KeepKernel<T, kCount>
          <<<BlocksFor(batch * columns / kCount, kThreads), kThreads, 0, StreamOf(context)>>>(keep);
    });
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
