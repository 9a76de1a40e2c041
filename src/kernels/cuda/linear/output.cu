// Output rows of linear attention: a thread block has a segment of queries, and if the call is
// causal, of keys, which join its state.
#include "kernels/cuda/linear/steps.cuh"
#include "kernels/cuda/linear/store.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";
// A row with a smaller denominator may have lost its keys to rounding: the maxima cover keys that
// it does not see.
constexpr float kLeastDenominator = 0x1p-90f;
constexpr double kLeastExponent = -62.4;  // log of the above

struct OutputShared {
  ProductTiles tiles;
  RowNumbers queries, keys;
  PanelDecay decay;
  float added_kept[kPanelRows], reader_kept[kPanelRows];
  double rho[kPanelRows];
  float denominator[kPanelRows];
  int has_keys[kPanelRows];
  BlockCounts counts;
};

struct OutputWork {
  __host__ __device__ OutputWork(float* memory, const Call& a, bool causal, OutputShared* shared)
      : carver(memory),
        queries(CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false)),
        numerators(queries.value) {
    if (shared != nullptr) queries.numbers = &shared->queries;
    state.c = carver.TakeDoubles(a.map.width);
    if (!causal) return;
    keys = CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false);
    joining = CarveJoining(carver, a.map.width, shared == nullptr ? nullptr : shared->added_kept,
                           shared == nullptr ? nullptr : shared->reader_kept);
    if (shared != nullptr) keys.numbers = &shared->keys;
    state.z = carver.Take(a.map.width);
    state.s = carver.Take(int64_t{a.map.width} * a.value_dim);
    products = carver.Take(kPanelRows * kPanelRows);
  }

  Carver carver;
  Panel queries, keys{};
  float* numerators;  // [rows, value_dim], where queries of other calls have values
  Joining joining{};
  RunningState state{};
  float* products = nullptr;  // [rows, rows], weights of keys for queries
};

// ρ of each query against the maxima C, its weights, and its denominator from the state.
__device__ void WeighQueries(const Call& a, const Panel& queries, const Span& span,
                             const double* maximum, const float* lowered, const float* z,
                             const float* reader_kept, OutputShared& shared) {
  const int width = a.map.width, lane = threadIdx.x % kLanes;
  for (int row = span.first + threadIdx.x / kLanes; row < span.end(); row += kWarps) {
    const float* e = queries.e + row * width;
    float* w = queries.w + row * width;
    double largest = -INFINITY;
    for (int r = lane; r < width; r += kLanes) largest = fmax(largest, e[r] + maximum[r]);
    largest = MaxOfWarp(largest);
    double denominator = 0;
    for (int r = lane; r < width; r += kLanes) {
      float weight = largest > -INFINITY ? Weight(e[r] + maximum[r] - largest) : 0.0f;
      if (queries.g != nullptr) weight *= queries.g[row * width + r];
      w[r] = weight;
      denominator += weight * (lowered == nullptr ? z[r] : lowered[r] * z[r]);
    }
    denominator = SumOfWarp(denominator);
    if (lane > 0) continue;
    if (reader_kept != nullptr) denominator *= reader_kept[row];
    shared.rho[row] = largest + queries.numbers->shift[row] + queries.numbers->log_factor[row];
    shared.denominator[row] = static_cast<float>(denominator);
  }
  __syncthreads();
}

// Products of weights, 0 for keys that a query does not see, and what they add to denominators.
// Returns whether some row has lost its keys.
__device__ bool SeeKeys(const Call& a, const OutputWork& work, const Span& span,
                        OutputShared& shared) {
  const bool tells = a.map.is_nonnegative || !a.map.is_flat;
  const bool was_empty = !(work.state.c[0] > -INFINITY);
  const int lane = threadIdx.x % kLanes;
  bool is_lost = false;
  for (int row = span.first + threadIdx.x / kLanes; row < span.end(); row += kWarps) {
    float* products = work.products + (row - span.first) * kPanelRows;
    double sum = 0, reach = -INFINITY;
    int seen = 0;
    for (int key = span.first + lane; key < span.end(); key += kLanes) {
      float& product = products[key - span.first];
      if (key > row) product = 0;
      if (key > row || shared.keys.exists[key] == 0) continue;
      seen = 1;
      product *= shared.decay.Between(row, key);
      sum += product;
      const double decayed =
          shared.decay.forgets ? shared.decay.sums[row] - shared.decay.sums[key] : 0;
      reach = fmax(reach, shared.keys.shift[key] - work.joining.maximum[0] + decayed);
    }
    sum = SumOfWarp(sum);
    reach = MaxOfWarp(reach);
    seen = __any_sync(~0u, seen != 0) || !was_empty;
    if (lane > 0) continue;
    if (!was_empty) {
      const double decayed = shared.decay.forgets ? shared.decay.UpTo(span, row) : 0;
      reach = fmax(reach, log(double{work.joining.lowered[0]}) + decayed);
    }
    const float denominator = shared.denominator[row] += static_cast<float>(sum);
    shared.has_keys[row] = seen;
    if (seen == 0) continue;
    is_lost |= tells ? fabsf(denominator) < kLeastDenominator : reach < kLeastExponent;
  }
  return Any(is_lost);
}

__device__ void StoreSpan(const Call& a, const Head& head, int64_t begin, const Span& span,
                          const float* numerators, OutputShared& shared) {
  for (int row = span.first + threadIdx.x / kLanes; row < span.end(); row += kWarps)
    StoreOutputRow(
        a, head, begin + row,
        {shared.has_keys[row] != 0, shared.rho[row], double{shared.denominator[row]}},
        [&](int v) { return double{numerators[row * a.value_dim + v]}; }, shared.counts);
  __syncthreads();
}

// Numerators from a state, of rows that have weights.
__device__ void ReadState(const Call& a, const OutputWork& work, const Span& span,
                          const RunningState& state, const float* lowered, const float* reader_kept,
                          ProductTiles& tiles) {
  Multiply({.a = work.queries.w + span.first * a.map.width,
            .a_row = a.map.width,
            .a_depth = 1,
            .b = state.s,
            .b_column = 1,
            .b_depth = a.value_dim,
            .rows = span.count,
            .columns = a.value_dim,
            .depth = a.map.width,
            .c = work.numerators + span.first * a.value_dim,
            .c_row = a.value_dim,
            .row_factor = reader_kept == nullptr ? nullptr : reader_kept + span.first,
            .depth_factor = lowered},
           tiles);
}

// Returns false if the span must be halved.
__device__ bool CausalSpan(const Call& a, const Head& head, int64_t begin, const Span& span,
                           const OutputWork& work, OutputShared& shared) {
  const float* reader_kept = shared.decay.forgets ? shared.reader_kept : nullptr;
  const int width = a.map.width;
  if (!WeighAdded(a, /*forwards=*/true, work.keys, span, shared.decay, work.state, work.joining))
    return false;
  WeighQueries(a, work.queries, span, work.joining.maximum, work.joining.lowered, work.state.z,
               reader_kept, shared);
  Multiply({.a = work.queries.w + span.first * width,
            .a_row = width,
            .a_depth = 1,
            .b = work.keys.w + span.first * width,
            .b_column = width,
            .b_depth = 1,
            .rows = span.count,
            .columns = span.count,
            .depth = width,
            .c = work.products,
            .c_row = kPanelRows},
           shared.tiles);
  if (SeeKeys(a, work, span, shared) && span.count > 1) return false;
  ReadState(a, work, span, work.state, work.joining.lowered, reader_kept, shared.tiles);
  Multiply({.a = work.products,
            .a_row = kPanelRows,
            .a_depth = 1,
            .b = work.keys.value + span.first * a.value_dim,
            .b_column = 1,
            .b_depth = a.value_dim,
            .rows = span.count,
            .columns = a.value_dim,
            .depth = span.count,
            .c = work.numerators + span.first * a.value_dim,
            .c_row = a.value_dim,
            .adds = true},
           shared.tiles);
  StoreSpan(a, head, begin, span, work.numerators, shared);
  JoinState(a, /*forwards=*/true, work.keys, span, shared.decay, work.state, work.joining,
            shared.tiles);
  return true;
}

__device__ void CausalPanel(const Call& a, const Head& head, const HeadConstants& constants,
                            int64_t begin, int count, const OutputWork& work,
                            OutputShared& shared) {
  LoadQueries(a, head, constants, /*adjoint=*/false, begin, count, work.queries);
  LoadKeys(a, head, begin, count, work.keys);
  LoadDecay(a, head, begin, count, shared.decay);
  FindPanel(a, constants, /*of_keys=*/false, count, work.queries, shared.tiles);
  FindPanel(a, constants, /*of_keys=*/true, count, work.keys, shared.tiles);
  ForSpans(/*forwards=*/true, count,
           [&](const Span& span) { return CausalSpan(a, head, begin, span, work, shared); });
}

__device__ void PanelOfState(const Call& a, const Head& head, const HeadConstants& constants,
                             int64_t begin, int count, const OutputWork& work,
                             const RunningState& state, OutputShared& shared) {
  const Span span{0, count};
  LoadQueries(a, head, constants, /*adjoint=*/false, begin, count, work.queries);
  for (int row = threadIdx.x; row < count; row += kBlockThreads)
    shared.has_keys[row] = state.c[0] > -INFINITY;
  FindPanel(a, constants, /*of_keys=*/false, count, work.queries, shared.tiles);
  WeighQueries(a, work.queries, span, state.c, nullptr, state.z, nullptr, shared);
  ReadState(a, work, span, state, nullptr, nullptr, shared.tiles);
  StoreSpan(a, head, begin, span, work.numerators, shared);
}

struct OutputArguments {
  bool causal;
  Cut cut;
  int64_t state_stride;
  SegmentStates states;
  const int* only;
  float* memory;
  int64_t floats;
};

__device__ void OutputSegment(const Call& a, const OutputArguments& arguments, int64_t item,
                              const OutputWork& work, OutputShared& shared) {
  const Cut& cut = arguments.cut;
  const int64_t index = item / cut.segments, begin = item % cut.segments * cut.rows;
  const int64_t end = min(begin + cut.rows, a.query_length);
  const Head head(a, index);
  const HeadConstants constants(a, head);
  RunningState state = work.state;
  if (arguments.causal) {
    CopyState(a, arguments.states, item, state);
  } else {
    const int64_t first = index * arguments.state_stride * a.map.width;
    for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads)
      state.c[r] = arguments.states.c[first + r];
    state.z = arguments.states.z + first;
    state.s = arguments.states.s + first * a.value_dim;
    __syncthreads();
  }
  for (int64_t row = begin; row < end; row += kPanelRows) {
    const int count = static_cast<int>(min(int64_t{kPanelRows}, end - row));
    if (arguments.causal) {
      CausalPanel(a, head, constants, row, count, work, shared);
    } else {
      PanelOfState(a, head, constants, row, count, work, state, shared);
    }
  }
}

__global__ void __launch_bounds__(kBlockThreads, 2)
    OutputKernel(const __grid_constant__ Call a,
                 const __grid_constant__ OutputArguments arguments) {
  __shared__ OutputShared shared;
  shared.counts.Clear();
  const OutputWork work(arguments.memory + blockIdx.x * arguments.floats, a, arguments.causal,
                        &shared);
  for (int64_t item = blockIdx.x; item < a.groups * arguments.cut.segments; item += gridDim.x) {
    if (arguments.only == nullptr || arguments.only[item] != 0)
      OutputSegment(a, arguments, item, work, shared);
  }
  shared.counts.AddTo(a.tally);
}

}  // namespace

void Output(const Call& a, bool causal, const Cut& cut, int64_t state_stride,
            const SegmentStates& states, const int* only, const Context& context) {
  const int64_t floats = OutputWork(nullptr, a, causal, nullptr).carver.used();
  const int64_t blocks = BlocksFor(a.groups * cut.segments, floats, only != nullptr);
  const DeviceScratch<float> memory(context, blocks * floats);
  OutputKernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0,
                 static_cast<cudaStream_t>(UseStream(context))>>>(a, {.causal = causal,
                                                                      .cut = cut,
                                                                      .state_stride = state_stride,
                                                                      .states = states,
                                                                      .only = only,
                                                                      .memory = memory.data(),
                                                                      .floats = floats});
  Check(kName);
}

}  // namespace favor::kernels::cuda::general
