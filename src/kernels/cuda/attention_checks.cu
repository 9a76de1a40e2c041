// Checks of the rows of an attention call on a GPU, and δ.
#include "kernels/cuda/attention_checks.cuh"

#include <cmath>
#include <limits>

#include "kernels/cuda/parts/row_vectors.cuh"

namespace favor::kernels::cuda {

using general::Array;
using general::ArrayOf;
using general::ArrayOfGroups;
using general::kRowsAtOnce;
using general::kRowThreads;
using general::kVector;
using general::RowOrder;
using general::RowPlace;
using general::Vector;

namespace {

constexpr char kName[] = "attention";

// Rows of an array [batch, heads, length, columns] that are counted if they are not within a limit.
struct Checked {
  Array array, mask;
  bool has_vectors = false;
  RowOrder order;
  int columns = 0, lanes = 1;
  float limit = 0;
  // Keys that are centred: also if scale·‖k − mean‖² is too large for a head that has them.
  Array mean{};
  int64_t sharing = 1;
  double scale = 0;
};

// Up to three arrays, and flags: if there are some and none is set, nothing is checked.
struct CheckedArrays {
  Checked of[3];
  int count = 0;
  const int* flags = nullptr;
  int64_t flag_count = 0;
  TallyEntry* tally = nullptr;
};

__device__ bool CentredIsWithin(const Checked& a, int64_t batch, int64_t kv_head, int64_t at) {
  for (int64_t head = kv_head * a.sharing; head < (kv_head + 1) * a.sharing; ++head) {
    double square = 0;
    for (int i = 0; i < a.columns; ++i) {
      const double x = a.array.Load(at + i * a.array.column) -
                       a.mean.Load(a.mean.At(batch, head, 0) + i * a.mean.row);
      square += x * x;
    }
    if (!(a.scale * square <= kLargestNorm)) return false;
  }
  return true;
}

// Whether a flag is set, for all threads of a block.
__device__ bool AnySet(const int* flags, int64_t count) {
  int any = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) any |= flags[i];
  return __syncthreads_or(any) != 0;
}

__global__ void CheckRows(const __grid_constant__ CheckedArrays arrays) {
  if (arrays.flags != nullptr && !AnySet(arrays.flags, arrays.flag_count)) return;
  const Checked& a = arrays.of[blockIdx.y];
  const int rows_at_a_time = kRowThreads / a.lanes, lane = threadIdx.x % a.lanes;
  const int64_t step = int64_t{gridDim.x} * rows_at_a_time;
  int unusable = 0;
  for (int64_t first = int64_t{blockIdx.x} * rows_at_a_time; first < a.order.rows;
       first += kRowsAtOnce * step) {
    RowPlace places[kRowsAtOnce];
    bool exists[kRowsAtOnce], within[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r * step + threadIdx.x / a.lanes;
      const RowPlace& place = places[r] = RowPlace(row, a.order);
      exists[r] =
          row < a.order.rows && (a.mask.data == nullptr ||
                                 a.mask.Load(a.mask.At(place.batch, place.head, place.index)) != 0);
      within[r] = true;
    }
    const auto at = [&](int r) {
      return a.array.At(places[r].batch, places[r].head, places[r].index);
    };
    for (int column = lane * kVector; column < a.columns; column += a.lanes * kVector) {
      Vector vectors[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (exists[r]) vectors[r].Load(a.array, a.has_vectors, at(r), column, a.columns);
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        float values[kVector];
        vectors[r].Floats(values);
#pragma unroll
        for (int i = 0; i < kVector; ++i) within[r] &= fabsf(values[i]) <= a.limit;
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      for (int distance = a.lanes / 2; distance > 0; distance /= 2)
        within[r] &= __shfl_xor_sync(~0u, static_cast<int>(within[r]), distance) != 0;
      if (lane > 0 || !exists[r]) continue;
      if (within[r] && a.mean.data != nullptr)
        within[r] = CentredIsWithin(a, places[r].batch, places[r].head, at(r));
      unusable += within[r] ? 0 : 1;
    }
  }
  general::AddToTally(&arrays.tally->unusable, unusable);
}

unsigned BlocksOfRows(int64_t rows, int lanes) {
  constexpr int64_t kMostBlocks = 2112;
  const int64_t at_a_time = kRowsAtOnce * (kRowThreads / lanes);
  return static_cast<unsigned>(
      std::clamp<int64_t>((rows + at_a_time - 1) / at_a_time, 1, kMostBlocks));
}

// Adds an array and its limit, and what else is to be checked.
void Add(CheckedArrays& arrays, const ConstView& array, double limit, Checked a) {
  if (array.empty() || array.shape().Elements() == 0) return;
  a.array = ArrayOf(array);
  a.has_vectors = general::HasVectors(array);
  a.order = RowOrder(array);
  a.columns = static_cast<int>(array.size(3));
  a.lanes = general::LanesOf(a.columns);
  a.limit = static_cast<float>(std::min(limit, double{std::numeric_limits<float>::max()}));
  arrays.of[arrays.count++] = a;
}

void Launch(const CheckedArrays& arrays, const Context& context) {
  if (arrays.count == 0) return;
  unsigned blocks = 1;
  for (int i = 0; i < arrays.count; ++i)
    blocks = std::max(blocks, BlocksOfRows(arrays.of[i].order.rows, arrays.of[i].lanes));
  CheckRows<<<dim3(blocks, static_cast<unsigned>(arrays.count)), kRowThreads, 0,
              StreamOf(context)>>>(arrays);
  Check(kName);
}

struct Deltas {
  Array out, grad_out, delta;
  bool has_vectors, normalize;
  RowOrder order;
  int columns, lanes;
  TallyEntry* tally;
};

__global__ void DeltaRows(const __grid_constant__ Deltas a) {
  const int rows_at_a_time = kRowThreads / a.lanes, lane = threadIdx.x % a.lanes;
  const int64_t step = int64_t{gridDim.x} * rows_at_a_time;
  int unusable = 0;
  for (int64_t first = int64_t{blockIdx.x} * rows_at_a_time; first < a.order.rows;
       first += kRowsAtOnce * step) {
    RowPlace places[kRowsAtOnce];
    double sums[kRowsAtOnce] = {};
    const auto row_of = [&](int r) { return first + r * step + threadIdx.x / a.lanes; };
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) places[r] = RowPlace(row_of(r), a.order);
    for (int column = lane * kVector; a.normalize && column < a.columns;
         column += a.lanes * kVector) {
      Vector out[kRowsAtOnce], grad_out[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (row_of(r) >= a.order.rows) continue;
        const RowPlace& place = places[r];
        out[r].Load(a.out, a.has_vectors, a.out.At(place.batch, place.head, place.index), column,
                    a.columns);
        grad_out[r].Load(a.grad_out, a.has_vectors,
                         a.grad_out.At(place.batch, place.head, place.index), column, a.columns);
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        float x[kVector], y[kVector], sum = 0;
        out[r].Floats(x);
        grad_out[r].Floats(y);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum = fmaf(x[i], y[i], sum);
        sums[r] += sum;  // few numbers become doubles, which takes longer than to multiply them
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      for (int distance = a.lanes / 2; distance > 0; distance /= 2)
        sums[r] += __shfl_xor_sync(~0u, sums[r], distance);
      if (lane > 0 || row_of(r) >= a.order.rows) continue;
      const RowPlace& place = places[r];
      const double delta =
          a.delta.Store(a.delta.At(place.batch, place.head, place.index), -sums[r]);
      unusable += isfinite(delta) ? 0 : 1;
    }
  }
  general::AddToTally(&a.tally->unusable, unusable);
}

}  // namespace

void CountUnusableIf(const RangeArguments& a, const int* flags, int64_t flag_count,
                     const Context& context) {
  const AttentionProblem& problem = a.problem;
  const double most = LargestElement(problem);
  CheckedArrays arrays{.flags = flags, .flag_count = flag_count, .tally = a.tally};
  Add(arrays, problem.q, most, {});
  Add(arrays, problem.k, most,
      {.mask = ArrayOf(problem.mask),
       .mean = ArrayOf(a.key_mean),
       .sharing = problem.heads / problem.kv_heads,
       .scale = problem.scale});
  Add(arrays, problem.v, kLargestValue, {.mask = ArrayOf(problem.mask)});
  Launch(arrays, context);
}

void CountUnusable(const RangeArguments& a, const Context& context) {
  CountUnusableIf(a, /*flags=*/nullptr, /*flag_count=*/0, context);
}

void CountNotFinite(const FiniteArguments& a, const Context& context) {
  CheckedArrays arrays{.tally = a.tally};
  Add(arrays, a.array.AsRank4(), std::numeric_limits<double>::max(), {});
  Launch(arrays, context);
}

void FindDeltas(const DeltaArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  const int lanes = general::LanesOf(problem.value_dim);
  const int64_t rows = problem.Groups() * problem.query_length;
  if (rows == 0) return;
  DeltaRows<<<BlocksOfRows(rows, lanes), kRowThreads, 0, StreamOf(context)>>>(
      {.out = ArrayOf(a.out),
       .grad_out = ArrayOf(a.grad_out),
       .delta = ArrayOfGroups(a.delta, problem.heads),
       .has_vectors = general::HasVectors(a.out) && general::HasVectors(a.grad_out),
       .normalize = problem.normalize,
       .order = RowOrder(a.grad_out),
       .columns = static_cast<int>(problem.value_dim),
       .lanes = lanes,
       .tally = a.tally});
  Check(kName);
}

}  // namespace favor::kernels::cuda
