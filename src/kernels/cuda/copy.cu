#include "kernels/copy.h"

#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kZero[] = "zero", kCopy[] = "copy";

// Elements are rounded once: from double directly, from other types through float, which holds them
// exactly.
__device__ double Wide(double x) { return x; }
__device__ float Wide(float x) { return x; }
__device__ float Wide(__half x) { return __half2float(x); }
__device__ float Wide(BF16 x) { return __bfloat162float(x); }

template <class To, class From>
__device__ To Converted(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, __half>) {
    if constexpr (std::is_same_v<From, double>) return __double2half(x);
    return __float2half_rn(static_cast<float>(Wide(x)));
  } else if constexpr (std::is_same_v<To, BF16>) {
    if constexpr (std::is_same_v<From, double>) return __double2bfloat16(x);
    return __float2bfloat16_rn(static_cast<float>(Wide(x)));
  } else {
    return static_cast<To>(Wide(x));
  }
}

// The axes of a copy, without those of size 1, neighbours in memory as one, the last one first.
struct Axes {
  int64_t sizes[Shape::kMaxRank], from[Shape::kMaxRank], to[Shape::kMaxRank];
  int rank = 0;
};

Axes AxesOf(const ConstView& from, const View& to) {
  Axes axes;
  for (int axis = to.rank() - 1; axis >= 0; --axis) {
    const int64_t size = to.size(axis), last = axes.rank - 1;
    if (size == 1) continue;
    if (last >= 0 && from.stride(axis) == axes.from[last] * axes.sizes[last] &&
        to.stride(axis) == axes.to[last] * axes.sizes[last]) {
      axes.sizes[last] *= size;
      continue;
    }
    axes.sizes[axes.rank] = size;
    axes.from[axes.rank] = from.stride(axis);
    axes.to[axes.rank++] = to.stride(axis);
  }
  if (axes.rank == 0) axes = {.sizes = {1}, .from = {1}, .to = {1}, .rank = 1};
  return axes;
}

// Copies kPacket neighbours of the first axis at a time; more than one only if its strides are 1.
template <int kPacket, class From, class To>
__global__ void __launch_bounds__(kElementThreads)
    CopyKernel(const From* from, const Axes axes, int64_t packets, To* to) {
  for (int64_t i = ThreadOfGrid(); i < packets; i += ThreadsOfGrid()) {
    int64_t rest = i, from_at = 0, to_at = 0;
#pragma unroll
    for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
      if (axis >= axes.rank) break;
      const int64_t size = axis == 0 ? axes.sizes[0] / kPacket : axes.sizes[axis];
      const bool is_last = axis + 1 == axes.rank;
      const Quotient divided = is_last ? Quotient{0, rest} : Divide(rest, size);
      const int64_t index = divided.rest * (axis == 0 ? kPacket : 1);
      rest = divided.quotient;
      from_at += index * axes.from[axis];
      to_at += index * axes.to[axis];
    }
    const auto packet = *reinterpret_cast<const Packet<From, kPacket>*>(from + from_at);
    Packet<To, kPacket> converted;
#pragma unroll
    for (int k = 0; k < kPacket; ++k) converted.at[k] = Converted<To>(packet.at[k]);
    *reinterpret_cast<Packet<To, kPacket>*>(to + to_at) = converted;
  }
}

template <class From, class To>
void CopyElements(const CopyArguments& a, const Context& context) {
  using Wider = std::conditional_t<(sizeof(From) > sizeof(To)), From, To>;
  constexpr int kMost = kFullPacket<Wider>;
  const auto* from = static_cast<const From*>(a.from.data());
  auto* to = static_cast<To*>(a.to.data());
  const Axes axes = AxesOf(a.from, a.to);
  bool aligned = axes.sizes[0] % kMost == 0 && axes.from[0] == 1 && axes.to[0] == 1 &&
                 AreAligned(16, {from, to});
  for (int axis = 1; axis < axes.rank; ++axis)
    aligned = aligned && axes.from[axis] % kMost == 0 && axes.to[axis] % kMost == 0;
  WithPackets<Wider>(aligned, [&](auto packet) {
    const int64_t packets = a.to.shape().Elements() / packet.kValue;
    CopyKernel<packet.kValue>
        <<<BlocksFor(packets, kElementThreads), kElementThreads, 0, StreamOf(context)>>>(
            from, axes, packets, to);
  });
  Check(kCopy);
}

// Calls body(T{}) with the type of the elements.
template <class Body>
void WithType(DataType type, const Body& body) {
  switch (type) {
    case DataType::kF32:
      return body(float{});
    case DataType::kF64:
      return body(double{});
    case DataType::kF16:
      return body(__half{});
    case DataType::kBF16:
      return body(BF16{});
  }
}

}  // namespace

void Zero(const ZeroArguments& a, const Context& context) {
  const int64_t bytes = a.y.shape().Elements() * ItemBytes(a.y.type());
  if (bytes == 0) return;
  Check(kZero, cudaMemsetAsync(a.y.data(), 0, static_cast<size_t>(bytes), StreamOf(context)));
}

void Copy(const CopyArguments& a, const Context& context) {
  if (a.from.shape() != a.to.shape())
    throw Error(
        ErrorCode::kInvalidData, kCopy,
        "given shape " + a.from.shape().ToString() + ", expected " + a.to.shape().ToString());
  if (a.to.shape().Elements() == 0) return;
  if (a.from.type() == a.to.type() && a.from.IsContiguous() && a.to.IsContiguous()) {
    const int64_t bytes = a.to.shape().Elements() * ItemBytes(a.to.type());
    return Check(kCopy, cudaMemcpyAsync(a.to.data(), a.from.data(), static_cast<size_t>(bytes),
                                        cudaMemcpyDeviceToDevice, StreamOf(context)));
  }
  WithType(a.from.type(), [&](auto from) {
    WithType(a.to.type(), [&](auto to) { CopyElements<decltype(from), decltype(to)>(a, context); });
  });
}

}  // namespace favor::kernels::cuda
