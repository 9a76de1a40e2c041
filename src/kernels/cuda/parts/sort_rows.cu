#include "kernels/cuda/parts/sort_rows.h"

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/parts/elements.cuh"
#include "kernels/cuda/parts/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "embedding";
constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) CountUp(int32_t count, int32_t* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) to[i] = static_cast<int32_t>(i);
}

// Row i is at position first + i % length: each position has count / length rows, or one more.
__global__ void __launch_bounds__(kThreads)
    SortPositions(uint32_t count, uint32_t length, int32_t first, SortedRows sorted) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t least = count / length, with_more = count % length;
  const uint32_t of_those = with_more * (least + 1);  // rows
  uint32_t position, turn;
  if (i < of_those) {
    position = i / (least + 1);
    turn = i % (least + 1);
  } else {
    position = with_more + (i - of_those) / least;
    turn = (i - of_those) % least;
  }
  sorted.entries[i] = first + static_cast<int32_t>(position);
  sorted.rows[i] = static_cast<int32_t>(turn * length + position);
}

void SortIndices(const int32_t* indices, int32_t count, int64_t entries, const SortedRows& sorted,
                 const Context& context) {
  const cudaStream_t stream = StreamOf(context);
  const DeviceScratch<int32_t> rows(context, count);
  CountUp<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(count, rows.data());
  Check(kName);
  const int bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(entries - 1))));
  const auto sort = [&](void* memory, size_t& bytes) {
    Check(kName, cub::DeviceRadixSort::SortPairs(memory, bytes, indices, sorted.entries,
                                                 rows.data(), sorted.rows, count,
                                                 /*begin_bit=*/0, bits, stream));
  };
  size_t bytes = 0;
  sort(nullptr, bytes);  // asks for the size only
  const DeviceScratch<std::byte> memory(context, std::max<int64_t>(1, static_cast<int64_t>(bytes)));
  sort(memory.data(), bytes);
}

}  // namespace

void SortRows(const TableRows& rows, int64_t count, int64_t entries, const SortedRows& sorted,
              const Context& context) {
  if (count > INT32_MAX || entries > INT32_MAX) {
    throw Error(ErrorCode::kUnavailable, kName,
                "given " + std::to_string(count) + " rows and a table of " +
                    std::to_string(entries) + " on a GPU, expected at most 2³¹ − 1");
  }
  if (rows.indices != nullptr)
    return SortIndices(rows.indices, static_cast<int32_t>(count), entries, sorted, context);
  // More positions than rows are as good as one for each row.
  const auto length = static_cast<uint32_t>(std::min(rows.length, count));
  SortPositions<<<BlocksFor(count, kThreads), kThreads, 0, StreamOf(context)>>>(
      static_cast<uint32_t>(count), length, static_cast<int32_t>(rows.first.known), sorted);
  Check(kName);
}

}  // namespace favor::kernels::cuda
