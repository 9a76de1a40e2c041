// Which elements of its arrays each thread works on: neighbouring threads take neighbouring packets
// of 16 bytes where addresses and widths allow, single elements otherwise.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ELEMENT_THREADS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ELEMENT_THREADS_CUH_

#include <cstdint>

#include "kernels/cuda/parts/elements.cuh"

namespace favor::kernels::cuda {

constexpr int kElementThreads = 256;  // threads of a block

template <int kCount>
struct Count {
  static constexpr int kValue = kCount;
};

// Elements that fill 16 bytes.
template <class T>
constexpr int kFullPacket = 16 / sizeof(T);

// Calls body(Count<elements of a packet>).
template <class T, class Body>
void WithPackets(bool aligned, const Body& body) {
  if (aligned) {
    body(Count<kFullPacket<T>>());
  } else {
    body(Count<1>());
  }
}

// The index of a thread among all threads of a launch, and how many there are.
__device__ inline int64_t ThreadOfGrid() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ThreadsOfGrid() { return int64_t{gridDim.x} * blockDim.x; }

// Blocks of kElementThreads for ForEachPacket.
inline unsigned BlocksForPackets(int64_t count, int packet) {
  return BlocksFor((count + packet - 1) / packet, kElementThreads);
}

// Calls body(first element, Count<elements>) for packets of contiguous elements, then for the rest
// one by one.
template <int kPacket, class Body>
__device__ void ForEachPacket(int64_t count, const Body& body) {
  const int64_t packets = count / kPacket;
  for (int64_t i = ThreadOfGrid(); i < packets; i += ThreadsOfGrid())
    body(i * kPacket, Count<kPacket>());
  if constexpr (kPacket > 1) {
    for (int64_t i = packets * kPacket + ThreadOfGrid(); i < count; i += ThreadsOfGrid())
      body(i, Count<1>());
  }
}

// A block of (threads of a row, rows), for rows of `items` each: no thread has to divide.
inline dim3 BlockOverRows(int64_t items) {
  unsigned threads = 1;
  while (threads < items && threads < kElementThreads) threads *= 2;
  return dim3(threads, kElementThreads / threads);
}

// Calls body(row) for the rows of this thread, and body(item) for its items of a row.
template <class Body>
__device__ void ForEachRow(int64_t rows, const Body& body) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (int64_t row = first; row < rows; row += int64_t{gridDim.x} * blockDim.y) body(row);
}
template <class Body>
__device__ void ForEachItem(int64_t items, const Body& body) {
  for (int64_t item = threadIdx.x; item < items; item += blockDim.x) body(item);
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ELEMENT_THREADS_CUH_
