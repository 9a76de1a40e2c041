#include "kernels/cuda/matmul/few_rows.h"

#include <algorithm>

#include "kernels/cuda/parts/activation_functions.cuh"
#include "kernels/cuda/parts/block_threads.cuh"
#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "matmul";
constexpr int kWarpsOfBlock = 4;
// The warps of a block share columns if there would be fewer warps than this, eight for each
// multiprocessor of a large GPU. It is the same number on every GPU, so that sums are.
constexpr int64_t kWantedWarps = 1056;

template <class In, class Out>
struct FewRows {
  const In *a, *b;
  int64_t a_row, b_column;  // strides
  int rows;
  int64_t columns, depth;
  const In* bias;     // null: none
  const Out* addend;  // laid out like c, null: none
  Out* c;
  int64_t c_row;
  Activation f;
  Out* y;  // = f(c) without gaps, null: not computed
};

// A block is (lanes, warps of a column, columns). Packets of a column go to the lanes of its warps
// in turn: each lane adds its own in their order, then lanes are added, then warps in their order.
template <int kRows, class In, class Out>
__global__ void __launch_bounds__(kLanes* kWarpsOfBlock) FewRowsKernel(const FewRows<In, Out> p) {
  constexpr int kPacket = kFullPacket<In>, kAtOnce = kRows <= 2 ? 4 : 2;
  __shared__ float of_warps[kWarpsOfBlock][kRows];
  const int lane = threadIdx.x;
  const int64_t column = int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
  const bool exists = column < p.columns;
  const bool stores = exists && threadIdx.y == 0 && lane < p.rows;
  // What is added is on its way while the sum is made.
  float bias = 0, addend = 0;
  if (stores && p.bias != nullptr) bias = ToFloat(p.bias[column]);
  if (stores && p.addend != nullptr) addend = ToFloat(p.addend[lane * p.c_row + column]);
  float sums[kRows] = {};
  const In* b = p.b + column * p.b_column;
  const int64_t step = int64_t{kPacket} * kLanes * blockDim.y, end = exists ? p.depth : 0;
  for (int64_t first = (int64_t{threadIdx.y} * kLanes + lane) * kPacket; first < end;
       first += kAtOnce * step) {
    Packed<In, kPacket> of_b[kAtOnce], of_a[kAtOnce][kRows];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * step < end) of_b[u].Load(b + first + u * step);
    }
    // Rows that do not exist are the last one again: their sums are not stored.
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * step >= end) break;
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        of_a[u][r].Load(p.a + min(r, p.rows - 1) * p.a_row + first + u * step);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u * step >= end) break;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < kPacket; ++i) sums[r] += of_a[u][r][i] * of_b[u][i];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      sums[r] += __shfl_xor_sync(~0u, sums[r], distance);
  }
  if (blockDim.y > 1) {
    const unsigned own = threadIdx.z * blockDim.y;  // the first warp of this column
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (lane == r) of_warps[own + threadIdx.y][r] = sums[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = of_warps[own][r];
      for (unsigned warp = 1; warp < blockDim.y; ++warp) sums[r] += of_warps[own + warp][r];
    }
  }
  if (!stores) return;
  float value = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) value = lane == r ? sums[r] : value;
  const Out c = FromFloat<Out>(value + bias + addend);
  p.c[lane * p.c_row + column] = c;
  // Of the rounded c, which is what the operation alone would read.
  if (p.y != nullptr) p.y[lane * p.columns + column] = FromFloat<Out>(ValueOf(p.f, ToFloat(c)));
}

// Warps that share a column: each has a packet for every lane.
template <class In>
unsigned WarpsOfColumn(int64_t columns, int64_t depth) {
  constexpr int64_t kTermsOfWarp = kLanes * kFullPacket<In>;
  unsigned warps = 1;
  while (warps < kWarpsOfBlock && columns * warps < kWantedWarps &&
         depth >= 2 * warps * kTermsOfWarp)
    warps *= 2;
  return warps;
}

// Calls body(Count<rows>) with as many rows or a few more.
template <class Body>
void WithRows(int64_t rows, const Body& body) {
  if (rows <= 1) return body(Count<1>());
  if (rows <= 2) return body(Count<2>());
  if (rows <= 4) return body(Count<4>());
  body(Count<kMostFewRows>());
}

template <class In, class Out>
bool Multiply(const MatrixProduct& p, const ActivationArguments* then, const Context& context) {
  const auto are_packets = [](int64_t elements) { return elements % kFullPacket<In> == 0; };
  if (p.a.column != 1 || p.b.row != 1 || !are_packets(p.depth) ||
      !AreAligned(16, {p.a.data, p.b.data}) || (p.rows > 1 && !are_packets(p.a.row)) ||
      (p.columns > 1 && !are_packets(p.b.column)))
    return false;
  const FewRows<In, Out> few{.a = static_cast<const In*>(p.a.data),
                             .b = static_cast<const In*>(p.b.data),
                             .a_row = p.a.row,
                             .b_column = p.b.column,
                             .rows = static_cast<int>(p.rows),
                             .columns = p.columns,
                             .depth = p.depth,
                             .bias = static_cast<const In*>(p.bias),
                             .addend = static_cast<const Out*>(p.addend),
                             .c = static_cast<Out*>(p.c),
                             .c_row = p.c_row,
                             .f = then != nullptr ? then->f : Activation{},
                             .y = then != nullptr ? ElementsOf<Out>(then->y) : nullptr};
  const unsigned warps = WarpsOfColumn<In>(p.columns, p.depth), across = kWarpsOfBlock / warps;
  const dim3 block(kLanes, warps, across);
  WithRows(p.rows, [&](auto rows) {
    FewRowsKernel<rows.kValue><<<BlocksFor(p.columns, across), block, 0, StreamOf(context)>>>(few);
  });
  Check(kName);
  return true;
}

}  // namespace

bool MultiplyFewRows(const MatrixProduct& p, const ActivationArguments* then,
                     const Context& context) {
  if (p.rows > kMostFewRows || p.depth == 0) return false;
  if (then != nullptr && then->y.type() != p.result_type) return false;
  if (p.type == DataType::kF32) return Multiply<float, float>(p, then, context);
  if (p.result_type == DataType::kF32) return Multiply<BF16, float>(p, then, context);
  return Multiply<BF16, BF16>(p, then, context);
}

}  // namespace favor::kernels::cuda
