// Means of keys and the A of oprf on a GPU: sums over slices of rows, then over slices, in order.
#include "kernels/key_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/linear/call.cuh"

namespace favor::kernels::cuda {

using general::Array;
using general::ArrayOf;

namespace {

constexpr char kName[] = "key means";
constexpr int kThreads = 256;
constexpr int64_t kSliceRows = 1024, kMostSlices = 128;

// Sums over the existing rows of (x − mean)·scale: of a group's rows and of all slices.
struct Rows {
  Array rows, mask, mean;
  double scale;
  int64_t heads, sharing, length, slices;  // row heads: query heads / sharing
  int dim;
  double* sums;  // [groups, slices, dim + 2]: Σx, then Σ‖x‖² and the number of rows
};

// A thread has a column; columns beyond the threads are taken in turns.
__global__ void SumSlices(const __grid_constant__ Rows a) {
  const int64_t group = blockIdx.x / a.slices, slice = blockIdx.x % a.slices;
  const int64_t batch = group / a.heads, head = group % a.heads, row_head = head / a.sharing;
  const int64_t step = (a.length + a.slices - 1) / a.slices;
  const int64_t begin = slice * step, end = min(a.length, begin + step);
  double* to = a.sums + blockIdx.x * int64_t{a.dim + 2};
  __shared__ double squares[kThreads];
  double square = 0, count = 0;
  // Several rows at a time if they are narrow; sums of each are added in order below.
  const int parts = max(1, kThreads / a.dim), part = threadIdx.x / a.dim;
  __shared__ double partial[kThreads];
  for (int first = 0; first < a.dim; first += kThreads) {
    const int column = parts > 1 ? threadIdx.x % a.dim : first + threadIdx.x;
    const bool works = parts > 1 ? part < parts : column < a.dim;
    double sum = 0;
    const double mean = works && a.mean.data != nullptr
                            ? a.mean.Load(a.mean.At(batch, head, 0) + column * a.mean.row)
                            : 0.0;
    for (int64_t row = begin + (parts > 1 ? part : 0); works && row < end; row += parts) {
      if (a.mask.data != nullptr && a.mask.Load(a.mask.At(batch, row_head, row)) == 0) continue;
      if (column == 0) count += 1;
      const double x =
          (a.rows.Load(a.rows.At(batch, row_head, row) + column * a.rows.column) - mean) * a.scale;
      sum += x;
      square += x * x;
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < a.dim - first) {
      double total = 0;
      for (int p = 0; p < parts; ++p) total += partial[p * a.dim + threadIdx.x];
      to[first + threadIdx.x] = total;
    }
    __syncthreads();
  }
  squares[threadIdx.x] = square;
  partial[threadIdx.x] = count;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double all = 0, rows = 0;
  for (int i = 0; i < kThreads; ++i) all += squares[i], rows += partial[i];
  to[a.dim] = all;
  to[a.dim + 1] = rows;
}

// Entry `column` of the sums of a group.
__device__ double TotalOf(const Rows& a, int64_t group, int column) {
  double total = 0;
  for (int64_t slice = 0; slice < a.slices; ++slice)
    total += a.sums[(group * a.slices + slice) * (a.dim + 2) + column];
  return total;
}

__global__ void StoreMeans(const __grid_constant__ Rows a, const __grid_constant__ Array mean) {
  const int64_t group = blockIdx.x;
  const double count = TotalOf(a, group, a.dim + 1);
  for (int i = threadIdx.x; i < a.dim; i += blockDim.x) {
    mean.Store(mean.At(group / a.heads, group % a.heads, 0) + i * mean.row,
               count > 0 ? TotalOf(a, group, i) / count : 0);
  }
}

// OptimalOprfA of the means over queries and keys.
__global__ void StoreA(const __grid_constant__ Rows q, const __grid_constant__ Rows k,
                       const __grid_constant__ Array oprf_a) {
  const int64_t group = blockIdx.x;
  __shared__ double products[general::kMostColumns];
  for (int i = threadIdx.x; i < q.dim; i += blockDim.x)
    products[i] = TotalOf(q, group, i) * TotalOf(k, group, i);
  __syncthreads();
  if (threadIdx.x > 0) return;
  double dot = 0;
  for (int i = 0; i < q.dim; ++i) dot += products[i];
  const double queries = TotalOf(q, group, q.dim + 1), keys = TotalOf(k, group, k.dim + 1);
  if (!(keys > 0)) return;
  const double square = TotalOf(q, group, q.dim) / queries + TotalOf(k, group, k.dim) / keys +
                        2 * dot / (queries * keys);
  const double phi = square / q.dim;
  const double a = (1 - 2 * phi - sqrt((2 * phi + 1) * (2 * phi + 1) + 8 * phi)) / 16;
  oprf_a.Store(oprf_a.At(group / q.heads, group % q.heads, 0), a);
}

int64_t SlicesOf(int64_t length) {
  return std::clamp<int64_t>((length + kSliceRows - 1) / kSliceRows, 1, kMostSlices);
}

Rows RowsOf(const AttentionProblem& problem, bool of_keys) {
  return {.rows = ArrayOf(of_keys ? problem.k : problem.q),
          .mask = of_keys ? ArrayOf(problem.mask) : Array{},
          .mean = {},
          .scale = 1,
          .heads = problem.heads,
          .sharing = of_keys ? problem.heads / problem.kv_heads : 1,
          .length = of_keys ? problem.key_length : problem.query_length,
          .slices = SlicesOf(of_keys ? problem.key_length : problem.query_length),
          .dim = static_cast<int>(problem.dim)};
}

void Sum(const Rows& rows, int64_t groups, cudaStream_t stream) {
  SumSlices<<<static_cast<unsigned>(groups * rows.slices), kThreads, 0, stream>>>(rows);
  Check(kName);
}

int64_t SizeOf(const Rows& rows, int64_t groups) { return groups * rows.slices * (rows.dim + 2); }

}  // namespace

void FindKeyMeans(const KeyMeanArguments& a, const Context& context) {
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const int64_t groups = a.problem.Groups();
  Rows keys = RowsOf(a.problem, /*of_keys=*/true);
  const DeviceScratch<double> sums(context, SizeOf(keys, groups));
  keys.sums = sums.data();
  Sum(keys, groups, stream);
  StoreMeans<<<static_cast<unsigned>(groups), kThreads, 0, stream>>>(keys, ArrayOf(a.mean));
  Check(kName);
}

void FindOprfA(const OprfArguments& a, const Context& context) {
  if (a.problem.dim > general::kMostColumns) {
    throw Error(ErrorCode::kUnavailable, "oprf",
                "given dim " + std::to_string(a.problem.dim) + " on a GPU, expected at most " +
                    std::to_string(general::kMostColumns));
  }
  const auto stream = static_cast<cudaStream_t>(UseStream(context));
  const int64_t groups = a.problem.Groups();
  Rows q = RowsOf(a.problem, /*of_keys=*/false), k = RowsOf(a.problem, /*of_keys=*/true);
  q.scale = k.scale = std::sqrt(a.problem.scale);
  k.mean = ArrayOf(a.key_mean);
  const DeviceScratch<double> q_sums(context, SizeOf(q, groups)),
      k_sums(context, SizeOf(k, groups));
  q.sums = q_sums.data();
  k.sums = k_sums.data();
  Sum(q, groups, stream);
  Sum(k, groups, stream);
  StoreA<<<static_cast<unsigned>(groups), kThreads, 0, stream>>>(q, k, ArrayOf(a.oprf_a));
  Check(kName);
}

}  // namespace favor::kernels::cuda
