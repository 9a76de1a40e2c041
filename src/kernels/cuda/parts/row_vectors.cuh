// Rows of an array of any type as threads load them: eight neighbouring elements at a time. A row
// is shared by a part of a warp, and all threads of a warp take part in every step.
#ifndef FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_
#define FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_

#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda::general {

constexpr int kVector = 8, kRowThreads = 256;
constexpr int kRowsAtOnce = 2;  // rows whose loads a thread has on their way

// Threads that share a row, a power of two up to a warp.
inline int LanesOf(int64_t columns) {
  int lanes = 1;
  while (lanes < 32 && lanes * kVector < columns) lanes *= 2;
  return lanes;
}

// How rows of arrays [batch, heads, length, ..] are counted: as they lie in memory, so that
// neighbouring threads read neighbouring rows.
struct RowOrder {
  RowOrder() = default;
  explicit RowOrder(const ConstView& array)
      : heads(array.size(1)),
        length(array.size(2)),
        rows(array.size(0) * heads * length),
        heads_follow(array.stride(1) < array.stride(2)) {}

  int64_t heads = 1, length = 0, rows = 0;
  bool heads_follow = false;  // the heads of a token follow each other, not the tokens of a head
};

struct RowPlace {
  RowPlace() = default;
  __device__ RowPlace(int64_t row, const RowOrder& order) {
    const int64_t inner = order.heads_follow ? order.heads : order.length;
    const int64_t outer = order.heads_follow ? order.length : order.heads;
    int64_t of_inner, of_outer;
    if (order.rows <= UINT32_MAX) {  // divisions of 64 bits take longer than reading a row
      const auto r = static_cast<uint32_t>(row), i = static_cast<uint32_t>(inner),
                 o = static_cast<uint32_t>(outer), quotient = r / i;
      of_inner = r - quotient * i;
      batch = quotient / o;
      of_outer = quotient - static_cast<uint32_t>(batch) * o;
    } else {
      of_inner = row % inner;
      of_outer = row / inner % outer;
      batch = row / inner / outer;
    }
    head = order.heads_follow ? of_inner : of_outer;
    index = order.heads_follow ? of_outer : of_inner;
  }

  int64_t batch, head, index;
};

// Whether every vector of every row begins at a multiple of 16 bytes.
inline bool HasVectors(const ConstView& view) {
  const int64_t rank = view.shape().rank();
  bool aligned = reinterpret_cast<uintptr_t>(view.data()) % 16 == 0 &&
                 view.type() != DataType::kF64 && view.stride(rank - 1) == 1 &&
                 view.size(rank - 1) % kVector == 0;
  for (int64_t axis = 0; axis + 1 < rank; ++axis) aligned &= view.stride(axis) % kVector == 0;
  return aligned;
}

// Elements column … column + 7 of the row that begins at `at`; 0 beyond its end. They stay as they
// are in memory until Floats(), so that loads of several vectors are on their way before the first
// is looked at.
class Vector {
 public:
  __device__ void Load(const Array& array, bool has_vectors, int64_t at, int column, int columns) {
    if (!has_vectors) {
      type_ = DataType::kF32;
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        words_[i] = __float_as_uint(
            column + i < columns ? static_cast<float>(array.Load(at + (column + i) * array.column))
                                 : 0.0f);
      }
      return;
    }
    type_ = array.type;
    const bool is_f32 = type_ == DataType::kF32;
    const char* from = static_cast<const char*>(array.data) + (at + column) * (is_f32 ? 4 : 2);
    Store(0, *reinterpret_cast<const uint4*>(from));
    if (is_f32) Store(4, *reinterpret_cast<const uint4*>(from + sizeof(uint4)));
  }

  __device__ void Floats(float (&values)[kVector]) const {
    const auto half = [&](int i) { return static_cast<uint16_t>(words_[i / 2] >> (16 * (i % 2))); };
    if (type_ == DataType::kF32) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = __uint_as_float(words_[i]);
    } else if (type_ == DataType::kBF16) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = __bfloat162float(__ushort_as_bfloat16(half(i)));
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = __half2float(__ushort_as_half(half(i)));
    }
  }

 private:
  __device__ void Store(int first, const uint4& bits) {
    words_[first] = bits.x, words_[first + 1] = bits.y;
    words_[first + 2] = bits.z, words_[first + 3] = bits.w;
  }

  DataType type_ = DataType::kF32;
  uint32_t words_[kVector] = {};
};

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_PARTS_ROW_VECTORS_CUH_
