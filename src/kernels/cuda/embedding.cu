// Looking up is a copy of rows. Backwards, rows are sorted by their entry of the table and cut into
// chunks of the same number of rows, so that an entry of many rows takes no longer than others: the
// sums of entries that lie within a chunk are complete, and those of entries that cross its ends
// are parts, which are added in a second step, in order.
#include "kernels/embedding.h"

#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"
#include "kernels/cuda/parts/sort_rows.h"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "embedding";
constexpr int kChunkRows = 32;
constexpr int kAtOnce = 4;  // rows or parts that a thread loads before it adds them
// A block that adds parts looks for entries that begin in these chunks; its threads are (columns in
// packets of four, shares of the parts of an entry).
constexpr int kOwners = 8, kPartColumns = 32, kShares = 16, kFour = 4;

template <class T>
struct Lookup {
  const T* table;
  TableRows table_rows;
  float scale;
  bool add;
  int64_t rows, width;
  T* y;

  __device__ int64_t EntryOf(int64_t row) const {
    return table_rows.indices != nullptr
               ? table_rows.indices[row]
               : table_rows.first.Get() + Divide(row, table_rows.length).rest;
  }
};

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads) LookUp(const Lookup<T> a) {
  ForEachRow(a.rows, [&](int64_t row) {
    const T* from = a.table + a.EntryOf(row) * a.width;
    T* y = a.y + row * a.width;
    for (int64_t column = threadIdx.x * kCount; column < a.width; column += blockDim.x * kCount) {
      float values[kCount], before[kCount] = {};
      LoadFloats(from + column, values);
      if (a.add) LoadFloats(y + column, before);
#pragma unroll
      for (int c = 0; c < kCount; ++c) values[c] = before[c] + a.scale * values[c];
      StoreFloats(values, y + column);
    }
  });
}

template <class T>
struct Chunks {
  const T* grad_y;
  const int32_t *entries, *rows;  // [count], sorted by entry
  int64_t count, chunks, width;
  float scale;
  float* grad_table;
  // [chunks, 2, part_width]: the sum of the entry that comes from the chunk before, and that of the
  // entry that begins here and continues in the next.
  float* parts;
  int64_t part_width;

  __device__ float* Part(int64_t chunk, bool begins_here) const {
    return parts + (2 * chunk + (begins_here ? 1 : 0)) * part_width;
  }
};

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads) SumChunks(const Chunks<T> a) {
  const int64_t chunk = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (chunk >= a.chunks) return;
  const int64_t begin = chunk * kChunkRows, end = min(begin + kChunkRows, a.count);
  const int32_t first = a.entries[begin];
  const bool comes_from_before = begin > 0 && a.entries[begin - 1] == first;
  const bool continues = end < a.count && a.entries[end] == a.entries[end - 1];
  for (int64_t column = threadIdx.x * kCount; column < a.width; column += blockDim.x * kCount) {
    float sums[kCount] = {};
    int32_t entry = first;
    bool is_complete = !comes_from_before;  // unless it continues in the next chunk
    const auto finish = [&](bool in_next) {
      if (!is_complete || in_next) {
        StoreFloats(sums, a.Part(chunk, is_complete) + column);
        return;
      }
      float* to = a.grad_table + entry * a.width + column;
      float total[kCount];
      LoadFloats(to, total);
#pragma unroll
      for (int c = 0; c < kCount; ++c) total[c] += a.scale * sums[c];
      StoreFloats(total, to);
    };
    for (int64_t i = begin; i < end; i += kAtOnce) {
      Packet<T, kCount> grads[kAtOnce];
      int32_t entries[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (i + j >= end) continue;
        entries[j] = a.entries[i + j];
        grads[j] = *reinterpret_cast<const Packet<T, kCount>*>(a.grad_y + a.rows[i + j] * a.width +
                                                               column);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (i + j >= end) continue;
        if (entries[j] != entry) {
          finish(/*in_next=*/false);
          entry = entries[j];
          is_complete = true;
#pragma unroll
          for (int c = 0; c < kCount; ++c) sums[c] = 0;
        }
#pragma unroll
        for (int c = 0; c < kCount; ++c) sums[c] += ToFloat(grads[j].at[c]);
      }
    }
    finish(continues);
  }
}

// Whether an entry begins in this chunk and continues in the next.
template <class T>
__device__ bool BeginsHere(const Chunks<T>& a, int64_t chunk) {
  const int64_t begin = chunk * kChunkRows, end = begin + kChunkRows;
  if (end >= a.count) return false;
  const int32_t last = a.entries[end - 1];
  return a.entries[end] == last && (begin == 0 || a.entries[begin - 1] != last);
}

template <class T>
__global__ void __launch_bounds__(kPartColumns* kShares) AddParts(const Chunks<T> a) {
  static_assert(kPartColumns == 32, "a row of threads is a warp");
  __shared__ double of_shares[kShares][kPartColumns][kFour];
  const int64_t first = int64_t{blockIdx.x} * kOwners;
  const int64_t column = (int64_t{blockIdx.y} * kPartColumns + threadIdx.x) * kFour;
  const bool begins = threadIdx.x < kOwners && BeginsHere(a, first + threadIdx.x);
  for (unsigned owners = __ballot_sync(~0u, begins); owners != 0; owners &= owners - 1) {
    const int64_t owner = first + __ffs(static_cast<int>(owners)) - 1;
    const int32_t entry = a.entries[(owner + 1) * kChunkRows];
    double sums[kFour] = {};
    const auto add = [&](const float(&part)[kFour]) {
#pragma unroll
      for (int c = 0; c < kFour; ++c) sums[c] += part[c];
    };
    if (column < a.width) {
      if (threadIdx.y == 0) {
        float part[kFour];
        LoadFloats(a.Part(owner, /*begins_here=*/true) + column, part);
        add(part);
      }
      // The entry continues until a chunk begins with another one.
      bool continues = true;
      for (int64_t i = owner + 1 + threadIdx.y; continues; i += kAtOnce * kShares) {
        float parts[kAtOnce][kFour];
        bool has_part[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int64_t chunk = i + j * kShares;
          has_part[j] = chunk < a.chunks && a.entries[chunk * kChunkRows] == entry;
          if (has_part[j]) LoadFloats(a.Part(chunk, /*begins_here=*/false) + column, parts[j]);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (has_part[j]) add(parts[j]);
        }
        continues = has_part[kAtOnce - 1];
      }
    }
    __syncthreads();  // until no thread reads the sums of the previous entry
#pragma unroll
    for (int c = 0; c < kFour; ++c) of_shares[threadIdx.y][threadIdx.x][c] = sums[c];
    __syncthreads();
    if (threadIdx.y >= kFour) continue;
    // The first rows of threads have one column each of every packet.
    const int64_t own = column + threadIdx.y;
    double sum = 0;
    for (int share = 0; share < kShares; ++share) sum += of_shares[share][threadIdx.x][threadIdx.y];
    if (own < a.width) a.grad_table[entry * a.width + own] += static_cast<float>(a.scale * sum);
  }
}

}  // namespace

void Embedding(const EmbeddingArguments& a, const Context& context) {
  if (a.y.size(0) == 0 || a.y.size(1) == 0) return;
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const Lookup<T> lookup{.table = ElementsOf<T>(a.table),
                           .table_rows = a.rows,
                           .scale = static_cast<float>(a.scale),
                           .add = a.add,
                           .rows = a.y.size(0),
                           .width = a.y.size(1),
                           .y = ElementsOf<T>(a.y)};
    const cudaStream_t stream = StreamOf(context);
    WithRowPackets<T>(lookup.width, {lookup.table, lookup.y}, [&](auto count) {
      constexpr int kCount = decltype(count)::kValue;
      const dim3 block = BlockOverRows(lookup.width / kCount);
      LookUp<T, kCount><<<BlocksFor(lookup.rows, block.y), block, 0, stream>>>(lookup);
    });
    Check(kName);
  });
}

void EmbeddingBackward(const EmbeddingGradients& a, const Context& context) {
  const int64_t rows = a.grad_y.size(0), width = a.grad_y.size(1);
  if (rows == 0 || width == 0) return;
  const cudaStream_t stream = StreamFor(kName, a.grad_table, context);
  const DeviceScratch<int32_t> entries(context, rows), sorted_rows(context, rows);
  SortRows(a.rows, rows, a.grad_table.size(0),
           {.entries = entries.data(), .rows = sorted_rows.data()}, context);
  const int64_t count_of_chunks = (rows + kChunkRows - 1) / kChunkRows;
  constexpr int64_t kPad = 8;  // the largest packet
  const int64_t part_width = (width + kPad - 1) / kPad * kPad;
  const DeviceScratch<float> parts(context, count_of_chunks * 2 * part_width);
  WithElements(kName, a.grad_y, [&](auto element) {
    using T = decltype(element);
    const Chunks<T> chunks{.grad_y = ElementsOf<T>(a.grad_y),
                           .entries = entries.data(),
                           .rows = sorted_rows.data(),
                           .count = rows,
                           .chunks = count_of_chunks,
                           .width = width,
                           .scale = static_cast<float>(a.scale),
                           .grad_table = a.grad_table.Data<float>(),
                           .parts = parts.data(),
                           .part_width = part_width};
    // A packet of bf16 has twice as many bytes in the table.
    const int64_t aligned = AreAligned(2 * 16, {chunks.grad_table}) ? width : 1;
    WithRowPackets<T>(aligned, {chunks.grad_y}, [&](auto count) {
      constexpr int kCount = decltype(count)::kValue;
      const dim3 block = BlockOverRows(width / kCount);
      SumChunks<T, kCount><<<BlocksFor(count_of_chunks, block.y), block, 0, stream>>>(chunks);
    });
    Check(kName);
    const dim3 grid(BlocksFor(count_of_chunks, kOwners), BlocksFor(width, kPartColumns * kFour));
    AddParts<<<grid, dim3(kPartColumns, kShares), 0, stream>>>(chunks);
    Check(kName);
  });
}

}  // namespace favor::kernels::cuda
