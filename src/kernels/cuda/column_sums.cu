#include "kernels/column_sums.h"

#include <numeric>

#include "kernels/cuda/parts/add_parts.cuh"
#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "column sums";
constexpr int64_t kBlocks = 1024;     // of a launch, if there are so many rows
constexpr int64_t kRowsOfThread = 4;  // at least, so that there are few parts to add
constexpr int64_t kLanes = 32;        // threads side by side
constexpr int kAtOnce = 4;            // rows that a thread adds in f32 before they join its sums

template <class T>
struct Rows {
  const T* from;
  int64_t rows, columns, stride;
  int64_t rows_of_part;
  float* parts;  // [parts, columns]
};

// Block (x, y) sums the rows of part x in the columns of its threads, kPacket columns each. The
// threads of a column take every blockDim.y-th row; their sums are added as a tree. Few numbers
// become doubles, which takes longer than to add them.
template <int kPacket, class T>
__global__ void __launch_bounds__(kElementThreads) SumKernel(const Rows<T> a) {
  __shared__ double shares[kElementThreads][kPacket];
  const int64_t first = int64_t{blockIdx.y} * blockDim.x * kPacket;
  const int64_t begin = int64_t{blockIdx.x} * a.rows_of_part;
  const int64_t end = min(begin + a.rows_of_part, a.rows);
  for (int64_t group = first; group < a.columns;
       group += int64_t{gridDim.y} * blockDim.x * kPacket) {
    const int64_t column = group + threadIdx.x * kPacket;
    double sums[kPacket] = {};
    if (column < a.columns) {
      const T* from = a.from + (begin + threadIdx.y) * a.stride + column;
      const int64_t step = blockDim.y * a.stride;
      for (int64_t row = begin + threadIdx.y; row < end; row += kAtOnce * blockDim.y) {
        Packed<T, kPacket> rows[kAtOnce];
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) {
          if (row + r * blockDim.y < end) rows[r].Load(from + r * step);
        }
        from += kAtOnce * step;
#pragma unroll
        for (int i = 0; i < kPacket; ++i)
          sums[i] += static_cast<double>((rows[0][i] + rows[1][i]) + (rows[2][i] + rows[3][i]));
      }
    }
    double* share = shares[threadIdx.y * blockDim.x + threadIdx.x];
#pragma unroll
    for (int i = 0; i < kPacket; ++i) share[i] = sums[i];
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y >= half) continue;
#pragma unroll
      for (int i = 0; i < kPacket; ++i)
        share[i] += shares[(threadIdx.y + half) * blockDim.x + threadIdx.x][i];
    }
    if (threadIdx.y == 0 && column < a.columns) {
      float part[kPacket];
#pragma unroll
      for (int i = 0; i < kPacket; ++i) part[i] = static_cast<float>(share[i]);
      StoreFloats(part, a.parts + blockIdx.x * a.columns + column);
    }
    __syncthreads();
  }
}

template <class T, class Sum>
void AddSums(const ColumnSumsArguments& a, const Context& context) {
  Rows<T> rows{.from = ElementsOf<T>(a.rows),
               .rows = a.rows.size(0),
               .columns = a.rows.size(1),
               .stride = a.rows.stride(0)};
  Sum* to = ElementsOf<Sum>(a.sums);
  if (rows.rows == 0 || rows.columns == 0) return;
  constexpr int64_t kMostGroups = 65535;  // the second size of a grid
  WithRowPackets<T>(std::gcd(rows.columns, rows.stride), {rows.from}, [&](auto packet) {
    const int64_t items = rows.columns / packet.kValue;
    unsigned lanes = 1;
    while (lanes < items && lanes < kLanes) lanes *= 2;
    const dim3 block(lanes, kElementThreads / lanes);
    const int64_t groups = std::min((items + lanes - 1) / lanes, kMostGroups);
    const int64_t least = kRowsOfThread * block.y;
    const int64_t most_parts = std::max<int64_t>(kBlocks / groups, 1);
    rows.rows_of_part = std::max(least, (rows.rows + most_parts - 1) / most_parts);
    const int64_t parts = (rows.rows + rows.rows_of_part - 1) / rows.rows_of_part;
    const DeviceScratch<float> scratch(context, parts * rows.columns);
    rows.parts = scratch.data();
    SumKernel<packet.kValue><<<dim3(static_cast<unsigned>(parts), static_cast<unsigned>(groups)),
                               block, 0, StreamOf(context)>>>(rows);
    Check(kName);
    AddParts(
        kName,
        PartSums<Sum>{.parts = scratch.data(), .count = parts, .width = rows.columns, .first = to},
        context);
  });
}

}  // namespace

void AddColumnSums(const ColumnSumsArguments& a, const Context& context) {
  WithElements(kName, a.rows, [&](auto element) {
    WithElements(kName, a.sums,
                 [&](auto sum) { AddSums<decltype(element), decltype(sum)>(a, context); });
  });
}

}  // namespace favor::kernels::cuda
