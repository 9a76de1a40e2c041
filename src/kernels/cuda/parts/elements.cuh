// Elements of the arrays that layers work on: f32 or bf16 in memory, f32 in registers.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ELEMENTS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ELEMENTS_CUH_

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "favor/error.h"
#include "favor/tensor.h"

namespace favor::kernels::cuda {

using BF16 = __nv_bfloat16;

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(BF16 x) { return __bfloat162float(x); }
template <class T>
__device__ T FromFloat(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

// Neighbouring elements that are loaded and stored at once, 16 bytes at a time: they begin at a
// multiple of that, or of their size if it is less.
template <class T, int kCount>
struct alignas(std::min<size_t>(sizeof(T) * kCount, 16)) Packet {
  T at[kCount];
};
template <int kCount, class T>
__device__ void LoadFloats(const T* from, float (&to)[kCount]) {
  const auto packet = *reinterpret_cast<const Packet<T, kCount>*>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = ToFloat(packet.at[i]);
}
template <int kCount, class T>
__device__ void StoreFloats(const float (&from)[kCount], T* to) {
  if constexpr (sizeof(T) == sizeof(BF16) && kCount % 2 == 0) {  // one instruction for two
    Packet<__nv_bfloat162, kCount / 2> packet;
#pragma unroll
    for (int i = 0; i < kCount; i += 2)
      packet.at[i / 2] = __floats2bfloat162_rn(from[i], from[i + 1]);
    *reinterpret_cast<Packet<__nv_bfloat162, kCount / 2>*>(to) = packet;
  } else {
    Packet<T, kCount> packet;
#pragma unroll
    for (int i = 0; i < kCount; ++i) packet.at[i] = FromFloat<T>(from[i]);
    *reinterpret_cast<Packet<T, kCount>*>(to) = packet;
  }
}

// Neighbouring elements in registers as they are in memory, where floats of bf16 would take twice
// as many. Zeros until they are loaded.
template <class T, int kCount>
class Packed {
 public:
  __device__ void Load(const T* from) {
    const auto packet = *reinterpret_cast<const Packet<Word, kWords>*>(from);
#pragma unroll
    for (int i = 0; i < kWords; ++i) words_[i] = packet.at[i];
  }
  __device__ float operator[](int i) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return __uint_as_float(words_[i]);
    } else {
      const uint32_t word = words_[i / 2];
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000);
    }
  }

 private:
  static constexpr size_t kBytes = kCount * sizeof(T);
  using Word = std::conditional_t<kBytes % sizeof(uint32_t) == 0, uint32_t, uint16_t>;
  static constexpr int kWords = kBytes / sizeof(Word);

  uint32_t words_[kWords] = {};
};

// Calls body(T{}) with the type of a result: float or BF16.
template <class Body>
void WithElements(const char* operation, const ConstView& result, const Body& body) {
  if (result.type() == DataType::kF32) return body(float{});
  if (result.type() == DataType::kBF16) return body(BF16{});
  throw Error(ErrorCode::kUnavailable, operation,
              "given " + std::string(Name(result.type())) + " arrays on " + Name(result.device()) +
                  ", expected f32 or bf16");
}

// A pointer to the elements of a view, or null if it is empty. Throws if they are of another type.
template <class T>
const T* ElementsOf(const ConstView& view) {
  constexpr DataType kType = sizeof(T) == sizeof(float) ? DataType::kF32 : DataType::kBF16;
  if (view.empty()) return nullptr;
  if (view.type() != kType) internal::ThrowWrongType(view.type(), kType);
  return static_cast<const T*>(view.data());
}
template <class T>
T* ElementsOf(const View& view) {
  return const_cast<T*>(ElementsOf<T>(ConstView(view)));
}

// Whether packets of `bytes` may be loaded from each of these addresses; null is as good as any.
inline bool AreAligned(int64_t bytes, std::initializer_list<const void*> addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [&](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
  });
}

// Thread blocks for `count` pieces of work. Kernels loop over what more there is.
inline unsigned BlocksFor(int64_t count, int64_t per_block) {
  constexpr int64_t kMostBlocks = int64_t{1} << 30;
  return static_cast<unsigned>(std::min((count + per_block - 1) / per_block, kMostBlocks));
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_PARTS_ELEMENTS_CUH_
