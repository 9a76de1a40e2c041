// Rows of an array as packets of neighbouring elements, of the largest size that fits.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ROW_PACKETS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ROW_PACKETS_CUH_

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/parts/element_threads.cuh"

namespace favor::kernels::cuda {

// Calls body(Count<elements of a packet>): 16 bytes, two elements or one, such that packets of T at
// these addresses make up rows of this width.
template <class T, class Body>
void WithRowPackets(int64_t width, std::initializer_list<const void*> addresses, const Body& body) {
  constexpr int kPair = 2;
  const auto fits = [&](int count) {
    return width % count == 0 && AreAligned(count * static_cast<int64_t>(sizeof(T)), addresses);
  };
  if (fits(kFullPacket<T>)) return body(Count<kFullPacket<T>>());
  if (fits(kPair)) return body(Count<kPair>());
  body(Count<1>());
}

struct Quotient {
  int64_t quotient, rest;
};
// Divides numbers that are at least 0. Divisions of 64 bits take longer than reading a packet.
__device__ inline Quotient Divide(int64_t number, int64_t by) {
  if ((number | by) <= UINT32_MAX) {
    const auto n = static_cast<uint32_t>(number), d = static_cast<uint32_t>(by), quotient = n / d;
    return {quotient, n - quotient * d};
  }
  return {number / by, number % by};
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ROW_PACKETS_CUH_
