// Exact attention as its kernels see it: rows in global memory, which columns a row sees, and the
// calls. In a forward call and for gradients of queries the rows of a block are queries and its
// columns are keys; for gradients of keys and values it is the other way.
#ifndef FAVOR_KERNELS_CUDA_EXACT_CALL_CUH_
#define FAVOR_KERNELS_CUDA_EXACT_CALL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/tally.h"
#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/cuda/parts/fast_math.cuh"

namespace favor::kernels::cuda {

constexpr double kLn2 = 0.69314718055994530942;

// [batch, heads, length, columns] with a contiguous last axis; strides in elements.
template <class Void>
struct ExactArray {
  Void* data = nullptr;
  DataType type = DataType::kF32;
  bool vectors = false;  // rows begin at multiples of 16 bytes and are as many long
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  __device__ int64_t At(int64_t batch, int64_t head) const {
    return batch * batch_stride + head * head_stride;
  }
};

// The rows of one batch entry and head.
struct ExactRows {
  const void* data;
  int64_t first;  // index of the first element
  int64_t row_stride;
  int64_t count;
  int columns;
  DataType type;
  bool vectors;
  const float* mask = nullptr;  // [count], 0: the row does not exist

  __device__ bool Has(int64_t row) const {
    return row < count && (mask == nullptr || mask[row] != 0);
  }
};

// Row i sees columns i + low … i + high.
struct ExactBand {
  int64_t low, high;

  __device__ ExactBand Transposed() const { return {-high, -low}; }
};

struct ExactProblem {
  ExactArray<const void> q, k, v;
  const float* mask;  // as in AttentionProblem
  int64_t mask_batch_stride, mask_head_stride;
  int64_t groups, heads, kv_heads, query_length, key_length;
  int dim, value_dim;
  ExactBand band;
  bool normalize;
  // Weights are 2^(sign · q·k · scale_log2) with scale_log2 > 0.
  float sign, scale_log2;
  float scale;
  TallyEntry* tally;

  __device__ int64_t Sharing() const { return heads / kv_heads; }  // query heads per key head
  __device__ ExactRows Queries(int64_t batch, int64_t head) const {
    return Rows(q, batch, head, query_length, dim);
  }
  __device__ ExactRows Keys(int64_t batch, int64_t kv_head) const {
    return WithMask(Rows(k, batch, kv_head, key_length, dim), batch, kv_head);
  }
  __device__ ExactRows Values(int64_t batch, int64_t kv_head) const {
    return WithMask(Rows(v, batch, kv_head, key_length, value_dim), batch, kv_head);
  }
  // Rows [query_length, value_dim].
  __device__ ExactRows QueryValues(const ExactArray<const void>& array, int64_t batch,
                                   int64_t head) const {
    return Rows(array, batch, head, query_length, value_dim);
  }

 private:
  __device__ static ExactRows Rows(const ExactArray<const void>& array, int64_t batch, int64_t head,
                                   int64_t count, int columns) {
    return {array.data, array.At(batch, head), array.row_stride, count, columns,
            array.type, array.vectors};
  }
  __device__ ExactRows WithMask(ExactRows rows, int64_t batch, int64_t kv_head) const {
    if (mask != nullptr) rows.mask = mask + batch * mask_batch_stride + kv_head * mask_head_stride;
    return rows;
  }
};

struct ExactForward {
  ExactProblem problem;
  ExactArray<void> out;
  float* log_sum;  // [groups, query_length] or null
  int64_t log_sum_stride;
  // SumParts, or null.
  double *log_scale, *numerator, *denominator;
  int64_t log_scale_stride, numerator_stride, denominator_stride;  // of a group
  // Work of a block.
  int64_t row_tiles;
  int slices;      // blocks that share the columns of the result
  int splits;      // blocks that share the keys; if several, they leave their sums in `partial`:
  float* partial;  // [splits, groups · query_length, value_dim + 2]
};

struct ExactBackward {
  ExactProblem problem;
  ExactArray<const void> grad_out;
  const float *log_sum, *delta;  // [groups, query_length]
  int64_t log_sum_stride, delta_stride;
  bool bounded;
  ExactArray<void> grad_q, grad_k, grad_v;
  int64_t row_tiles;
  int slices;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kHasWarpGroups = true;  // this is code for sm_90a
#else
constexpr bool kHasWarpGroups = false;
#endif
// Whether the current GPU runs such code: if there is any, and it is a Hopper GPU.
bool HasWarpGroups();

// One implementation for each type of element; those for f16 and bf16 need rows of at most 256
// elements with warp groups and 128 without, the other takes any type.
void ExactForwardBf16(const ExactForward& a, const Context& context);
void ExactForwardF16(const ExactForward& a, const Context& context);
void ExactForwardScalar(const ExactForward& a, const Context& context);
void ExactBackwardBf16(const ExactBackward& a, const Context& context);
void ExactBackwardF16(const ExactBackward& a, const Context& context);
void ExactBackwardScalar(const ExactBackward& a, const Context& context);
// Merges what the blocks of a split call left.
void MergeExactSplits(const ExactForward& a, const Context& context);

__device__ inline float LoadFloat(const void* data, DataType type, int64_t index) {
  if (type == DataType::kF32) return static_cast<const float*>(data)[index];
  if (type == DataType::kF16) return __half2float(static_cast<const __half*>(data)[index]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
}

// Returns what was stored: after rounding, it may be infinite.
__device__ inline float StoreFloat(void* data, DataType type, int64_t index, float value) {
  if (type == DataType::kF32) return static_cast<float*>(data)[index] = value;
  if (type == DataType::kF16) {
    const __half rounded = __float2half_rn(value);
    static_cast<__half*>(data)[index] = rounded;
    return __half2float(rounded);
  }
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  static_cast<__nv_bfloat16*>(data)[index] = rounded;
  return __bfloat162float(rounded);
}

__device__ inline void AddToTally(int64_t& count, int rows) {
  if (rows > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&count), static_cast<unsigned long long>(rows));
  }
}

}  // namespace favor::kernels::cuda

#endif  // FAVOR_KERNELS_CUDA_EXACT_CALL_CUH_
