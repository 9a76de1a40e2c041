// States of segments, and what becomes of them: a thread block has a segment, later the segments of
// one feature.
#include <algorithm>

#include "kernels/cuda/linear/steps.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";

struct StatesShared {
  ProductTiles tiles;
  RowNumbers numbers;
  PanelDecay decay;
  double moved[kPanelRows];
};

struct StatesWork {
  __host__ __device__ StatesWork(float* memory, const Call& a, RowNumbers* numbers)
      : carver(memory), panel(CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false)) {
    panel.numbers = numbers;
    c = carver.TakeDoubles(a.map.width);
    joining.kept = carver.Take(a.map.width);
  }

  Carver carver;
  Panel panel;
  Joining joining{};
  double* c;
};

// Rows join a state that nobody reads on the way: their weights are relative to what c becomes.
// `change` is what the panel makes the state before it forget.
__device__ void JoinPanel(const Call& a, const StatesWork& work, int count, double change,
                          const double* moved, const RunningState& state, ProductTiles& tiles) {
  const Span span{0, count};
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads) {
    const double before = state.c[r] + change;
    const double c = fmax(before, LargestOf(a.map, work.panel, span, r, moved));
    const float kept = Lowered(before, c);
    const float sum = WeighFeature(a.map, work.panel, span, r, c, moved, nullptr);
    work.joining.kept[r] = kept;
    state.z[r] = kept * state.z[r] + sum;
    state.c[r] = c;
  }
  JoinSums(a, work.panel, span, work.joining, /*forgets=*/false, state, tiles);
}

// Leaves c in floats; sums relative to that.
__device__ void StoreMaxima(const Call& a, const RunningState& state, float* to) {
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads) {
    to[r] = static_cast<float>(state.c[r]);
    const float factor = Lowered(state.c[r], to[r]);
    state.z[r] *= factor;
    for (int v = 0; v < a.value_dim; ++v) state.s[r * a.value_dim + v] *= factor;
  }
  __syncthreads();
}

__device__ void StateOfSegment(const Call& a, Side side, bool causal, const Cut& cut, int64_t item,
                               const SegmentStates& states, const StatesWork& work,
                               StatesShared& shared) {
  const bool of_keys = side == Side::kKeys;
  const int64_t index = item / cut.segments, segment = item % cut.segments;
  const int64_t begin = segment * cut.rows,
                end = min(begin + cut.rows, of_keys ? a.key_length : a.query_length);
  const Head head(a, index);
  const HeadConstants constants(a, head);
  const RunningState state{work.c, states.z + item * a.map.width,
                           states.s + item * a.map.width * a.value_dim};
  Clear(a, state);
  double total = 0;
  const int64_t panels = end > begin ? (end - begin + kPanelRows - 1) / kPanelRows : 0;
  for (int64_t i = 0; i < panels; ++i) {
    const int64_t first = begin + (of_keys ? i : panels - 1 - i) * kPanelRows;
    const int count = static_cast<int>(min(int64_t{kPanelRows}, end - first));
    if (of_keys) {
      LoadKeys(a, head, first, count, work.panel);
    } else {
      LoadQueries(a, head, constants, /*adjoint=*/true, first, count, work.panel);
    }
    FindPanel(a, constants, of_keys, count, work.panel, shared.tiles);
    const double* moved = nullptr;
    double change = 0, behind = 0;
    if (causal && a.log_decay.data != nullptr) {
      LoadDecay(a, head, first, count, shared.decay);
      const Span span{0, count};
      for (int row = threadIdx.x; row < count; row += kBlockThreads)
        shared.moved[row] = of_keys ? shared.decay.Behind(span, row) : shared.decay.UpTo(span, row);
      moved = shared.moved;
      change = shared.decay.Total(span) + (of_keys ? shared.decay.First(span) : 0);
      behind = of_keys ? 0 : shared.decay.First(span);
      total += change + behind;
      __syncthreads();
    }
    JoinPanel(a, work, count, change, moved, state, shared.tiles);
    for (int r = threadIdx.x; behind != 0 && r < a.map.width; r += kBlockThreads)
      state.c[r] += behind;
    __syncthreads();
  }
  StoreMaxima(a, state, states.c + item * a.map.width);
  if (threadIdx.x == 0) states.log_decay[item] = static_cast<float>(total);
}

__global__ void __launch_bounds__(kBlockThreads, 2)
    StatesKernel(const __grid_constant__ Call a, Side side, bool causal, Cut cut,
                 SegmentStates states, float* memory, int64_t floats) {
  __shared__ StatesShared shared;
  const StatesWork work(memory + blockIdx.x * floats, a, &shared.numbers);
  for (int64_t item = blockIdx.x; item < a.groups * cut.segments; item += gridDim.x)
    StateOfSegment(a, side, causal, cut, item, states, work, shared);
}

// Segments whose factors are found at a time.
constexpr int kBatch = 128;

struct ScanShared {
  double before[kBatch + 1];              // c before each segment
  double kept[kBatch], factor[kBatch];    // what the sums so far and the segment's own count
  double largest[kBatch], decay[kBatch];  // c and Λ of the segments
  float stored[kBatch], scale[kBatch];    // c as it is stored, and what sums count against it
};

struct ScanArguments {
  Scan scan;
  int64_t segments;
  SegmentStates states;
  GroupStates begin, end;

  // Whether the n-th state is read. Nothing comes behind the last one, which need not be there
  // then.
  __device__ bool Reads(int64_t n) const {
    return n + 1 < segments || scan == Scan::kTotal || end.c != nullptr;
  }
};

// Finds the factors of `count` segments in order, the first of which is the `first`; item(n) is
// where the n-th of them is.
template <class Item>
__device__ void FindFactors(const ScanArguments& scan, int width, int r, int64_t first, int count,
                            double c, const Item& item, ScanShared& shared) {
  for (int n = threadIdx.x; n < count; n += blockDim.x) {
    const bool is_read = scan.Reads(first + n);
    shared.largest[n] = is_read ? scan.states.c[item(n) * width + r] : -INFINITY;
    shared.decay[n] = is_read ? scan.states.log_decay[item(n)] : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int n = 0; n < count; ++n) {
      shared.before[n] = c;
      c = fmax(c + shared.decay[n], shared.largest[n]);
    }
    shared.before[count] = c;
  }
  __syncthreads();
  const auto lowered = [](double from, double to) { return from > -INFINITY ? exp(from - to) : 0; };
  for (int n = threadIdx.x; n < count; n += blockDim.x) {
    shared.kept[n] = lowered(shared.before[n] + shared.decay[n], shared.before[n + 1]);
    shared.factor[n] = lowered(shared.largest[n], shared.before[n + 1]);
    shared.stored[n] = static_cast<float>(shared.before[n]);
    shared.scale[n] = static_cast<float>(lowered(shared.before[n], shared.stored[n]));
  }
  __syncthreads();
}

// A block has one feature of one group; a thread has one value of its sums, the last one z.
__global__ void ScanKernel(const __grid_constant__ Call a,
                           const __grid_constant__ ScanArguments scan) {
  __shared__ ScanShared shared;
  const int width = a.map.width, dv = a.value_dim, v = threadIdx.x;
  const int64_t index = blockIdx.x / width, group = a.Group(index);
  const int r = static_cast<int>(blockIdx.x % width);
  const bool is_z = v == dv, works = v <= dv;
  double c = -INFINITY, sum = 0, total = 0;
  if (scan.begin.c != nullptr) {
    const int64_t feature = group * width + r;
    c = scan.begin.c[feature];
    if (works) sum = is_z ? scan.begin.z[feature] : scan.begin.s[feature * dv + v];
    if (r == 0) total = scan.begin.log_decay[group];
  }
  const auto at = [&](int64_t item) {
    return is_z ? scan.states.z + item * width + r : scan.states.s + (item * width + r) * dv + v;
  };
  for (int64_t first = 0; first < scan.segments; first += kBatch) {
    const int count = static_cast<int>(min(int64_t{kBatch}, scan.segments - first));
    const auto item = [&](int64_t n) {
      const int64_t segment =
          scan.scan == Scan::kBehind ? scan.segments - 1 - first - n : first + n;
      return index * scan.segments + segment;
    };
    FindFactors(scan, width, r, first, count, c, item, shared);
    constexpr int kAhead = 8;
    for (int n = 0; n < count; n += kAhead) {
      float own[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const bool is_read = works && n + i < count && scan.Reads(first + n + i);
        own[i] = is_read ? *at(item(n + i)) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (n + i >= count) break;
        if (works && scan.scan != Scan::kTotal)
          *at(item(n + i)) = static_cast<float>(sum * shared.scale[n + i]);
        sum = sum * shared.kept[n + i] + own[i] * shared.factor[n + i];
        total += shared.decay[n + i];
      }
    }
    for (int n = v; scan.scan != Scan::kTotal && n < count; n += blockDim.x)
      scan.states.c[item(n) * width + r] = shared.stored[n];
    c = shared.before[count];
    __syncthreads();
  }
  if (scan.scan == Scan::kTotal) {
    const int64_t item = index * max(scan.segments, int64_t{1});
    const float stored = static_cast<float>(c);
    if (works) *at(item) = static_cast<float>(c > -INFINITY ? sum * exp(c - stored) : 0);
    if (v == 0) scan.states.c[item * width + r] = stored;
  }
  if (scan.end.c == nullptr || a.tally->unusable > 0) return;
  __syncthreads();  // `begin` may be the same
  const int64_t feature = group * width + r;
  if (v == 0) scan.end.c[feature] = c;
  if (works) (is_z ? scan.end.z[feature] : scan.end.s[feature * dv + v]) = sum;
  if (v == 0 && r == 0) scan.end.log_decay[group] = total;
}

__global__ void CountKernel(const __grid_constant__ Call a, double* tokens) {
  const Head head(a, blockIdx.x);
  int count = 0;
  for (int64_t row = threadIdx.x; a.mask.data != nullptr && row < a.key_length; row += blockDim.x)
    count += a.mask.Load(a.mask.At(head.batch, head.kv_head, row)) != 0 ? 1 : 0;
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    count += __shfl_xor_sync(~0u, count, distance);
  __shared__ int counts[kLanes];
  if (threadIdx.x % kLanes == 0) counts[threadIdx.x / kLanes] = count;
  __syncthreads();
  if (threadIdx.x > 0 || a.tally->unusable > 0) return;
  double total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x) / kLanes; ++i) total += counts[i];
  tokens[head.group] += a.mask.data == nullptr ? static_cast<double>(a.key_length) : total;
}

}  // namespace

GroupStates PointersOf(const PrefixStates& states) {
  if (states.empty()) return {};
  return {.tokens = states.tokens.Data<double>(),
          .c = states.c.Data<double>(),
          .z = states.z.Data<double>(),
          .s = states.s.Data<double>(),
          .log_decay = states.log_decay.Data<double>()};
}

void SegmentStatesOf(const Call& a, Side side, bool causal, const Cut& cut,
                     const SegmentStates& states, const Context& context) {
  const int64_t floats = StatesWork(nullptr, a, nullptr).carver.used();
  const int64_t blocks = BlocksFor(a.groups * cut.segments, floats);
  const DeviceScratch<float> memory(context, blocks * floats);
  StatesKernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0,
                 static_cast<cudaStream_t>(UseStream(context))>>>(a, side, causal, cut, states,
                                                                  memory.data(), floats);
  Check(kName);
}

void ScanStates(const Call& a, Scan scan, int64_t segments, const SegmentStates& states,
                const GroupStates& begin, const GroupStates& end, const Context& context) {
  const auto threads = static_cast<unsigned>((a.value_dim + kLanes) / kLanes * kLanes);
  ScanKernel<<<static_cast<unsigned>(a.groups * a.map.width), threads, 0,
               static_cast<cudaStream_t>(UseStream(context))>>>(
      a, {.scan = scan, .segments = segments, .states = states, .begin = begin, .end = end});
  Check(kName);
}

void CountTokens(const Call& a, double* tokens, const Context& context) {
  constexpr int kThreads = 1024;
  CountKernel<<<static_cast<unsigned>(a.groups), kThreads, 0,
                static_cast<cudaStream_t>(UseStream(context))>>>(a, tokens);
  Check(kName);
}

}  // namespace favor::kernels::cuda::general
