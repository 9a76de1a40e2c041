// The last step of a row of linear attention on a GPU: StoreRow of output_row.h by a warp.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_STORE_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_STORE_CUH_

#include "kernels/cuda/linear/rows.cuh"

namespace favor::kernels::cuda::general {

// Rows by outcome (row_counts.h), in shared memory: counted by blocks before the tally is touched.
struct BlockCounts {
  int nonpositive, empty, unusable;

  __device__ void Clear() {
    if (threadIdx.x == 0) nonpositive = empty = unusable = 0;
    __syncthreads();
  }
  __device__ void AddTo(TallyEntry* tally) {
    __syncthreads();
    if (threadIdx.x > 0) return;
    AddToTally(&tally->nonpositive, nonpositive);
    AddToTally(&tally->empty, empty);
    AddToTally(&tally->unusable, unusable);
  }
};

// ρ with all that StoreRow includes, and D.
struct OutputRow {
  bool has_keys;
  double log_scale, denominator;
};

template <class Value>
__device__ void StoreParts(const Call& a, const Head& head, int64_t index, const OutputRow& row,
                           const Value& value) {
  const int lane = threadIdx.x % kLanes;
  const int64_t at = a.numerator.At(head.batch, head.head, index);
  for (int v = lane; v < a.value_dim; v += kLanes)
    a.numerator.Store(at + v * a.numerator.column, row.has_keys ? value(v) : 0.0);
  if (lane > 0) return;
  a.log_scale.Store(a.log_scale.At(head.batch, head.head, index),
                    row.has_keys ? row.log_scale : -INFINITY);
  a.denominator.Store(a.denominator.At(head.batch, head.head, index),
                      row.has_keys ? row.denominator : 0);
}

// `value(v)` is N_v of row `index`.
template <class Value>
__device__ void StoreOutputRow(const Call& a, const Head& head, int64_t index, const OutputRow& row,
                               const Value& value, BlockCounts& counts) {
  if (a.log_scale.data != nullptr) return StoreParts(a, head, index, row, value);
  const double log_sum = row.log_scale + log(row.denominator);
  const bool vanishes =
      !(row.denominator > 0) || (a.least_denominator > 0 && !(log_sum >= log(a.least_denominator)));
  const bool divides = a.normalize && row.has_keys && !vanishes;
  const int64_t at = a.out.At(head.batch, head.head, index);
  bool is_finite = true;
  for (int v = threadIdx.x % kLanes; v < a.value_dim; v += kLanes) {
    double result = 0;
    if (divides) result = value(v) / row.denominator;
    if (!a.normalize && row.has_keys && value(v) != 0)
      result = copysign(exp(row.log_scale + log(fabs(value(v)))), value(v));
    is_finite &= isfinite(a.out.Store(at + v * a.out.column, result)) != 0;
  }
  is_finite = __all_sync(~0u, is_finite) != 0;
  if (threadIdx.x % kLanes > 0) return;
  if (!is_finite) atomicAdd(&counts.unusable, 1);
  if (!row.has_keys) atomicAdd(&counts.empty, 1);
  if (a.normalize && row.has_keys && vanishes) atomicAdd(&counts.nonpositive, 1);
  if (a.log_sum.data == nullptr) return;
  const double unnormalised = row.has_keys && !a.normalize ? 0.0 : INFINITY;
  a.log_sum.Store(a.log_sum.At(head.batch, head.head, index), divides ? log_sum : unnormalised);
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_STORE_CUH_
