// Checks of the inputs of a few rows (attention_checks.h) by every block of a launch for itself, so
// that a call of a token needs no other launch: all find the same, and inputs change the states of
// all heads or of none.
#ifndef FAVOR_KERNELS_CUDA_LINEAR_FEW_CHECKS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_FEW_CHECKS_CUH_

#include "kernels/attention_checks.h"
#include "kernels/cuda/linear/few_share.cuh"
#include "kernels/cuda/parts/row_vectors.cuh"

namespace favor::kernels::cuda::general {

// Rows of q, then k, then v. A row that does not exist has no columns.
struct CheckedRow {
  __device__ CheckedRow(const Few& few, int index) {
    const Call& a = few.a;
    const int rows = few.rows, heads = static_cast<int>(a.heads),
              kv_heads = static_cast<int>(a.heads / a.sharing),
              batch = static_cast<int>(a.groups / a.heads);
    const int queries = batch * heads * rows, keys = batch * kv_heads * rows;
    const bool of_keys = index >= queries, of_values = index >= queries + keys;
    array = of_values ? &a.v : of_keys ? &a.k : &a.q;
    columns = of_values ? a.value_dim : a.dim;
    largest = of_values ? static_cast<float>(kLargestValue) : few.largest;
    const int own = index - (of_values ? queries + keys : of_keys ? queries : 0);
    const int group = own / rows, row = own % rows, of = of_keys ? kv_heads : heads;
    at = array->At(group / of, group % of, row);
    if (of_keys && a.mask.data != nullptr &&
        a.mask.Load(a.mask.At(group / of, group % of, row)) == 0)
      columns = 0;
  }

  const Array* array;
  int64_t at;
  int columns;
  float largest;
};

__host__ __device__ inline int64_t CheckedRows(const Call& a, int64_t rows) {
  return a.groups / a.heads * (a.heads + 2 * (a.heads / a.sharing)) * rows;
}

// Whether some row is unusable; the first block counts them. All threads of the block wait.
__device__ inline bool AnyUnusable(const Few& few) {
  if (few.checked_lanes == 0) {
    __syncthreads();
    return false;
  }
  bool within = true;
  const int count = static_cast<int>(CheckedRows(few.a, few.rows));
  const int lanes = few.checked_lanes, lane = threadIdx.x % lanes;
  for (int index = threadIdx.x / lanes; index < count; index += kBlockThreads / lanes) {
    const CheckedRow row(few, index);
    for (int column = lane * kVector; column < row.columns; column += lanes * kVector) {
      Vector vector;
      vector.Load(*row.array, few.has_vectors, row.at, column, row.columns);
      float values[kVector];
      vector.Floats(values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) within &= fabsf(values[i]) <= row.largest;
    }
  }
  if (__syncthreads_or(!within) == 0) return false;
  for (int index = threadIdx.x; blockIdx.x == 0 && index < count; index += kBlockThreads) {
    const CheckedRow row(few, index);
    bool is_usable = true;
    for (int column = 0; column < row.columns; ++column)
      is_usable &= fabs(row.array->Load(row.at + column * row.array->column)) <= row.largest;
    AddToTally(&few.a.tally->unusable, is_usable ? 0 : 1);
  }
  return true;
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_FEW_CHECKS_CUH_
