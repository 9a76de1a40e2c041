// A few rows that join or read states in double as they are, as in decoding: one launch, which
// reads and writes each state once. A thread block has the state of a group.
#include "kernels/cuda/linear/steps.cuh"
#include "kernels/cuda/linear/store.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "state";

enum class Work : uint8_t {
  kAppend,
  kRead,
  kCausal,  // each key joins, then the query of its row reads
};

struct FewShared {
  RowNumbers queries, keys;
  PanelDecay decay;
  double sums[kFewRows][kBlockThreads];
  double numerators[kFewRows][kMostColumns];
  double largest[kFewRows], denominator[kFewRows];
  BlockCounts counts;
};

struct FewWork {
  __host__ __device__ FewWork(float* memory, const Call& a, FewShared* shared)
      : carver(memory),
        queries(CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false, kFewRows)),
        keys(CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false, kFewRows)),
        kept(carver.TakeDoubles(a.map.width)) {
    if (shared == nullptr) return;
    queries.numbers = &shared->queries;
    keys.numbers = &shared->keys;
  }

  Carver carver;
  Panel queries, keys;
  double* kept;  // [width]
};

// ω·x of a few rows: a warp has a row of ω.
__device__ void FindFewPanel(const Call& a, const HeadConstants& constants, bool of_keys, int count,
                             const Panel& panel) {
  const MapConstants& map = a.map;
  const int lane = threadIdx.x % kLanes;
  __syncthreads();
#pragma unroll 4
  for (int r = threadIdx.x / kLanes; !map.is_row_map && r < map.omega_rows; r += kWarps) {
    float u[kFewRows] = {};
    for (int i = lane; i < map.dim; i += kLanes) {
      const float omega = constants.omega[r * map.dim + i];
#pragma unroll
      for (int row = 0; row < kFewRows; ++row)
        if (row < count) u[row] += omega * panel.x[row * map.dim + i];
    }
#pragma unroll
    for (int row = 0; row < kFewRows; ++row) {
      if (row >= count) break;
      for (int distance = kLanes / 2; distance > 0; distance /= 2)
        u[row] += __shfl_xor_sync(~0u, u[row], distance);
      if (lane == 0) panel.u[row * map.omega_rows + r] = u[row];
    }
  }
  FindFeatures(map, constants,
               {.first = 0,
                .count = count,
                .of_keys = of_keys,
                .x = panel.x,
                .u = panel.u,
                .e = panel.e,
                .g = panel.g});
}

// Rows of a span join the state; their weights are relative to what c becomes.
__device__ void Append(const Call& a, const Head& head, const Span& span, const FewWork& work,
                       const GroupStates& states, FewShared& shared) {
  const int width = a.map.width, dv = a.value_dim;
  const bool forgets = shared.decay.forgets;
  const double total = forgets ? shared.decay.First(span) + shared.decay.Total(span) : 0;
  const Panel& keys = work.keys;
  for (int r = threadIdx.x; r < width; r += kBlockThreads) {
    const int64_t feature = head.group * width + r;
    const auto exponent = [&](int row) {
      return keys.e[row * width + r] + shared.keys.shift[row] +
             (forgets ? shared.decay.Behind(span, row) : 0.0);
    };
    const double before = states.c[feature] + total;
    double c = before, sum = 0;
    for (int row = span.first; row < span.end(); ++row)
      if (shared.keys.exists[row] != 0) c = fmax(c, exponent(row));
    const double kept = before > -INFINITY ? exp(before - c) : 0;
    for (int row = span.first; row < span.end(); ++row) {
      float w = shared.keys.exists[row] != 0 ? Weight(exponent(row) - c) : 0.0f;
      if (keys.g != nullptr) w *= keys.g[row * width + r];
      keys.w[row * width + r] = w;
      sum += w;
    }
    work.kept[r] = kept;
    states.c[feature] = c;
    states.z[feature] = kept * states.z[feature] + sum;
  }
  __syncthreads();
  double* s = states.s + head.group * width * dv;
#pragma unroll 8
  for (int i = threadIdx.x; i < width * dv; i += kBlockThreads) {
    const int r = i / dv, v = i % dv;
    double sum = work.kept[r] * s[i];
    for (int row = span.first; row < span.end(); ++row)
      sum += double{keys.w[row * width + r]} * keys.value[row * dv + v];
    s[i] = sum;
  }
  if (threadIdx.x == 0) {
    for (int row = span.first; row < span.end(); ++row)
      states.tokens[head.group] += shared.keys.exists[row];
    states.log_decay[head.group] += total;
  }
  __syncthreads();
}

// The weights of a row, by a warp; ρ and D.
__device__ void WeighFew(const Call& a, const Span& span, const FewWork& work, const double* c,
                         const double* z, FewShared& shared) {
  const int width = a.map.width, lane = threadIdx.x % kLanes;
  const int row = span.first + threadIdx.x / kLanes;
  if (row < span.end()) {
    const float* e = work.queries.e + row * width;
    double largest = -INFINITY, denominator = 0;
    for (int r = lane; r < width; r += kLanes) largest = fmax(largest, e[r] + c[r]);
    largest = MaxOfWarp(largest);
    for (int r = lane; r < width; r += kLanes) {
      float w = largest > -INFINITY ? Weight(e[r] + c[r] - largest) : 0.0f;
      if (work.queries.g != nullptr) w *= work.queries.g[row * width + r];
      work.queries.w[row * width + r] = w;
      denominator += w * z[r];
    }
    denominator = SumOfWarp(denominator);
    if (lane == 0) {
      shared.largest[row] = largest;
      shared.denominator[row] = denominator;
    }
  }
  __syncthreads();
}

// Numerators of the rows of a span: threads share the features of a column, in order.
__device__ void SumFew(const Call& a, const Span& span, const FewWork& work, const double* s,
                       FewShared& shared) {
  const int width = a.map.width, dv = a.value_dim;
  const int parts = kBlockThreads / dv;  // at least 1
  const int v = threadIdx.x % dv, part = threadIdx.x / dv;
  double sums[kFewRows] = {};
#pragma unroll 8
  for (int r = part; part < parts && r < width; r += parts) {
    const double element = s[r * dv + v];
#pragma unroll
    for (int row = 0; row < kFewRows; ++row)
      if (row < span.count) sums[row] += work.queries.w[(span.first + row) * width + r] * element;
  }
#pragma unroll
  for (int row = 0; row < kFewRows; ++row) shared.sums[row][threadIdx.x] = sums[row];
  __syncthreads();
  for (int i = threadIdx.x; i < span.count * dv; i += kBlockThreads) {
    double sum = 0;
    for (int p = 0; p < parts; ++p) sum += shared.sums[i / dv][p * dv + i % dv];
    shared.numerators[span.first + i / dv][i % dv] = sum;
  }
  __syncthreads();
}

__device__ void Read(const Call& a, const Head& head, const Span& span, const FewWork& work,
                     const GroupStates& states, FewShared& shared) {
  const int width = a.map.width;
  const double *c = states.c + head.group * width, *z = states.z + head.group * width;
  WeighFew(a, span, work, c, z, shared);
  SumFew(a, span, work, states.s + head.group * width * a.value_dim, shared);
  const int row = span.first + threadIdx.x / kLanes;
  if (row < span.end()) {
    const double log_scale =
        shared.largest[row] + shared.queries.shift[row] + shared.queries.log_factor[row];
    StoreOutputRow(
        a, head, row, {c[0] > -INFINITY, log_scale, shared.denominator[row]},
        [&](int v) { return shared.numerators[row][v]; }, shared.counts);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kBlockThreads, 4)
    FewKernel(const __grid_constant__ Call a, const __grid_constant__ GroupStates states, Work what,
              float* memory, int64_t floats) {
  __shared__ FewShared shared;
  __shared__ bool refused;
  if (threadIdx.x == 0) refused = what != Work::kRead && a.tally->unusable > 0;
  shared.counts.Clear();
  if (refused) return;
  const FewWork work(memory + blockIdx.x * floats, a, &shared);
  const int rows = static_cast<int>(what == Work::kRead ? a.query_length : a.key_length);
  for (int64_t index = blockIdx.x; index < a.groups; index += gridDim.x) {
    const Head head(a, index);
    const HeadConstants constants(a, head);
    __syncthreads();
    if (what != Work::kAppend) {
      LoadQueries(a, head, constants, /*adjoint=*/false, 0, rows, work.queries);
      FindFewPanel(a, constants, /*of_keys=*/false, rows, work.queries);
    }
    if (what != Work::kRead) {
      LoadKeys(a, head, 0, rows, work.keys);
      LoadDecay(a, head, 0, rows, shared.decay);
      FindFewPanel(a, constants, /*of_keys=*/true, rows, work.keys);
    }
    if (what == Work::kAppend) Append(a, head, {0, rows}, work, states, shared);
    if (what == Work::kRead) Read(a, head, {0, rows}, work, states, shared);
    for (int row = 0; what == Work::kCausal && row < rows; ++row) {
      Append(a, head, {row, 1}, work, states, shared);
      Read(a, head, {row, 1}, work, states, shared);
    }
  }
  shared.counts.AddTo(a.tally);
}

void Launch(const Call& a, const GroupStates& states, Work work, const Context& context) {
  const int64_t floats = FewWork(nullptr, a, nullptr).carver.used();
  const int64_t blocks = std::min(a.groups, 4 * kMostSegments);
  const DeviceScratch<float> memory(context, blocks * floats);
  FewKernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0,
              static_cast<cudaStream_t>(UseStream(context))>>>(a, states, work, memory.data(),
                                                               floats);
  Check(kName);
}

}  // namespace

void AppendFew(const Call& a, const GroupStates& states, const Context& context) {
  Launch(a, states, Work::kAppend, context);
}
void ReadFew(const Call& a, const GroupStates& states, const Context& context) {
  Launch(a, states, Work::kRead, context);
}
void CausalFew(const Call& a, const GroupStates& states, const Context& context) {
  Launch(a, states, Work::kCausal, context);
}

}  // namespace favor::kernels::cuda::general
