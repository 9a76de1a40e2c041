// Gradients of the rows of one side, which read the state of the other
// (linear_attention_backward.h): a thread block has a segment. In a causal call the rows of the
// other side join the state on the way: keys forwards, queries from the end.
#include "kernels/cuda/linear/steps.cuh"

namespace favor::kernels::cuda::general {
namespace {

constexpr char kName[] = "linear attention";
// A span in which a row has a larger weight is halved: rows that do not see each other can differ
// by any factor.
constexpr double kLargestExponent = 62.4;

struct GradientsShared {
  ProductTiles tiles;
  RowNumbers readers, added;
  PanelDecay decay;
  float added_kept[kPanelRows], reader_kept[kPanelRows], sums[kPanelRows];
  int unusable;
};

struct GradientsArguments {
  Side side;  // of the rows whose gradients these are
  bool causal;
  Cut cut;
  int64_t state_stride;
  SegmentStates states;
  float* log_weights;
  const int* only;
  float* memory;
  int64_t floats;
};

struct GradientsWork {
  __host__ __device__ GradientsWork(float* memory, const Call& a, bool causal,
                                    GradientsShared* shared)
      : carver(memory), readers(CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/true)) {
    grad_weights = carver.Take(int64_t{kPanelRows} * a.map.width);
    grad_x = carver.Take(kPanelRows * a.map.dim);
    grad_value = carver.Take(kPanelRows * a.value_dim);
    state.c = carver.TakeDoubles(a.map.width);
    if (shared != nullptr) readers.numbers = &shared->readers;
    if (!causal) return;
    added = CarvePanel(carver, a.map, a.value_dim, /*keeps_u=*/false);
    joining = CarveJoining(carver, a.map.width, shared == nullptr ? nullptr : shared->added_kept,
                           shared == nullptr ? nullptr : shared->reader_kept);
    if (shared != nullptr) added.numbers = &shared->added;
    state.z = carver.Take(a.map.width);
    state.s = carver.Take(int64_t{a.map.width} * a.value_dim);
    products = carver.Take(kPanelRows * kPanelRows);
  }

  Carver carver;
  Panel readers, added{};
  float *grad_weights, *grad_x, *grad_value;
  Joining joining{};
  RunningState state{};
  float* products = nullptr;  // [readers, added]
};

// One segment of a call, and what its steps share.
class Segment {
 public:
  __device__ Segment(const Call& a, const GradientsArguments& arguments, const GradientsWork& work,
                     GradientsShared& shared, int64_t item)
      : a_(a),
        arguments_(arguments),
        work_(work),
        shared_(shared),
        item_(item),
        index_(item / arguments.cut.segments),
        head_(a, index_),
        constants_(a, head_),
        state_(work.state),
        reads_keys_(arguments.side == Side::kQueries) {}

  __device__ void Run();

 private:
  __device__ void LoadPanels(int64_t begin, int count);
  __device__ bool TrySpan(int64_t begin, const Span& span);
  __device__ bool WeighReaders(const Span& span, const double* maximum);
  __device__ void ReadState(const Span& span);
  __device__ void SeeAdded(const Span& span, bool of_weights);
  __device__ void ReadAdded(const Span& span);
  __device__ void ReadValues(const Span& span);
  __device__ void FindGradients(const Span& span, const double* maximum);
  __device__ void Store(int64_t begin, const Span& span);
  __device__ bool StoreRow(const Array& to, int64_t at, int columns, bool adds, const float* from,
                           const float* x, double x_factor, double factor) const;
  __device__ const float* ReaderKept() const {
    return arguments_.causal && shared_.decay.forgets ? work_.joining.reader_kept : nullptr;
  }
  __device__ const float* Lowered() const { return work_.joining.lowered; }

  const Call& a_;
  const GradientsArguments& arguments_;
  const GradientsWork& work_;
  GradientsShared& shared_;
  int64_t item_, index_;
  Head head_;
  HeadConstants constants_;
  RunningState state_;
  bool reads_keys_;  // readers are queries
};

__device__ void Segment::LoadPanels(int64_t begin, int count) {
  const auto load = [&](bool queries, const Panel& panel) {
    if (queries) {
      LoadQueries(a_, head_, constants_, /*adjoint=*/true, begin, count, panel);
    } else {
      LoadKeys(a_, head_, begin, count, panel);
    }
    FindPanel(a_, constants_, /*of_keys=*/!queries, count, panel, shared_.tiles);
  };
  load(reads_keys_, work_.readers);
  if (!arguments_.causal) return;
  load(!reads_keys_, work_.added);
  LoadDecay(a_, head_, begin, count, shared_.decay);
}

// Weights of readers against C, which unlike those of a forward call are the true ones. Returns
// whether one is too large.
__device__ bool Segment::WeighReaders(const Span& span, const double* maximum) {
  const Panel& readers = work_.readers;
  const int width = a_.map.width;
  const bool bounded = a_.normalize && !a_.map.is_flat && a_.map.is_nonnegative;
  double largest = -INFINITY;
  for (int row = span.first + threadIdx.x / kLanes; row < span.end(); row += kWarps) {
    const bool exists = shared_.readers.exists[row] != 0;
    const double shift = shared_.readers.shift[row];
    double largest_of_row = -INFINITY;
    for (int r = threadIdx.x % kLanes; r < width; r += kLanes) {
      const int at = row * width + r;
      const double exponent = readers.e[at] + shift + maximum[r];
      if (exists) largest_of_row = fmax(largest_of_row, exponent);
      const float weight = exists ? Weight(exponent) : 0.0f;
      readers.w[at] = readers.g == nullptr ? weight : weight * readers.g[at];
    }
    largest = fmax(largest, largest_of_row);
    if (!bounded && (span.count == 1 || !arguments_.causal)) {
      largest_of_row = MaxOfWarp(largest_of_row);
      if (threadIdx.x % kLanes == 0 && largest_of_row > kWeightLimit)
        atomicAdd(&shared_.unusable, 1);
    }
  }
  return Any(largest > kLargestExponent);
}

// grad_weights = kept_i·lowered_r·(value_i·S_r + multiple_i z_r)
__device__ void Segment::ReadState(const Span& span) {
  const int width = a_.map.width;
  const float *kept = ReaderKept(), *lowered = Lowered();
  for (int i = threadIdx.x; i < span.count * width; i += kBlockThreads) {
    const int row = span.first + i / width, r = i % width;
    float read = shared_.readers.multiple[row] * state_.z[r];
    if (kept != nullptr) read *= kept[row];
    if (lowered != nullptr) read *= lowered[r];
    work_.grad_weights[row * width + r] = read;
  }
  Multiply({.a = work_.readers.value + span.first * a_.value_dim,
            .a_row = a_.value_dim,
            .a_depth = 1,
            .b = state_.s,
            .b_column = a_.value_dim,
            .b_depth = 1,
            .rows = span.count,
            .columns = width,
            .depth = a_.value_dim,
            .c = work_.grad_weights + span.first * width,
            .c_row = width,
            .adds = true,
            .row_factor = kept == nullptr ? nullptr : kept + span.first,
            .column_factor = lowered},
           shared_.tiles);
}

// Products of readers and the rows that join, of their weights or of [value, multiple]; 0 where
// they do not see each other.
__device__ void Segment::SeeAdded(const Span& span, bool of_weights) {
  const int columns = of_weights ? a_.map.width : a_.value_dim;
  const float* x = of_weights ? work_.readers.w : work_.readers.value;
  const float* y = of_weights ? work_.added.w : work_.added.value;
  Multiply({.a = x + span.first * columns,
            .a_row = columns,
            .a_depth = 1,
            .b = y + span.first * columns,
            .b_column = columns,
            .b_depth = 1,
            .rows = span.count,
            .columns = span.count,
            .depth = columns,
            .c = work_.products,
            .c_row = kPanelRows},
           shared_.tiles);
  for (int i = threadIdx.x; i < span.count * span.count; i += kBlockThreads) {
    const int reader = span.first + i / span.count, added = span.first + i % span.count;
    const int query = reads_keys_ ? reader : added, key = reads_keys_ ? added : reader;
    float& product = work_.products[(reader - span.first) * kPanelRows + added - span.first];
    if (!of_weights) product += shared_.readers.multiple[reader] * shared_.added.multiple[added];
    product = key <= query ? product * shared_.decay.Between(query, key) : 0;
  }
  __syncthreads();
}

// grad_weights += products·w
__device__ void Segment::ReadAdded(const Span& span) {
  const int width = a_.map.width;
  SeeAdded(span, /*of_weights=*/false);
  Multiply({.a = work_.products,
            .a_row = kPanelRows,
            .a_depth = 1,
            .b = work_.added.w + span.first * width,
            .b_column = 1,
            .b_depth = width,
            .rows = span.count,
            .columns = width,
            .depth = span.count,
            .c = work_.grad_weights + span.first * width,
            .c_row = width,
            .adds = true},
           shared_.tiles);
}

// Gradients of values: Σ_r w_r S_r, and what keys read of queries of their span.
__device__ void Segment::ReadValues(const Span& span) {
  const float* kept = ReaderKept();
  const int dv = a_.value_dim;
  float* to = work_.grad_value + span.first * dv;
  Multiply({.a = work_.readers.w + span.first * a_.map.width,
            .a_row = a_.map.width,
            .a_depth = 1,
            .b = state_.s,
            .b_column = 1,
            .b_depth = dv,
            .rows = span.count,
            .columns = dv,
            .depth = a_.map.width,
            .c = to,
            .c_row = dv,
            .row_factor = kept == nullptr ? nullptr : kept + span.first,
            .depth_factor = Lowered()},
           shared_.tiles);
  if (!arguments_.causal) return;
  SeeAdded(span, /*of_weights=*/true);
  Multiply({.a = work_.products,
            .a_row = kPanelRows,
            .a_depth = 1,
            .b = work_.added.value + span.first * dv,
            .b_column = 1,
            .b_depth = dv,
            .rows = span.count,
            .columns = dv,
            .depth = span.count,
            .c = to,
            .c_row = dv,
            .adds = true},
           shared_.tiles);
}

// From gradients of weights to those of rows as the map sees them.
__device__ void Segment::FindGradients(const Span& span, const double* maximum) {
  const MapConstants& map = a_.map;
  const Panel& readers = work_.readers;
  FindFeatureGradients(map, constants_,
                       {.rows = {.first = span.first,
                                 .count = span.count,
                                 .of_keys = !reads_keys_,
                                 .x = readers.x,
                                 .u = readers.u,
                                 .e = readers.e,
                                 .g = readers.g},
                        .grad_weights = work_.grad_weights,
                        .shift = shared_.readers.shift,
                        .exists = shared_.readers.exists,
                        .maximum = maximum,
                        .grad_x = work_.grad_x,
                        .sums = shared_.sums});
  if (map.is_row_map) return;
  Multiply({.a = readers.u + span.first * map.omega_rows,
            .a_row = map.omega_rows,
            .a_depth = 1,
            .b = constants_.omega,
            .b_column = 1,
            .b_depth = map.dim,
            .rows = span.count,
            .columns = map.dim,
            .depth = map.omega_rows,
            .c = work_.grad_x + span.first * map.dim,
            .c_row = map.dim},
           shared_.tiles);
}

// to = factor·(from + x_factor·x), by a warp. Returns whether all elements are finite.
__device__ bool Segment::StoreRow(const Array& to, int64_t at, int columns, bool adds,
                                  const float* from, const float* x, double x_factor,
                                  double factor) const {
  if (to.data == nullptr) return true;
  bool is_finite = true;
  for (int i = threadIdx.x % kLanes; i < columns; i += kLanes) {
    double value = from[i];
    if (x != nullptr) value += x_factor * x[i];
    value *= factor;
    if (adds) value += to.Load(at + i * to.column);
    is_finite &= isfinite(to.Store(at + i * to.column, value)) != 0;
  }
  return __all_sync(~0u, is_finite) != 0;
}

__device__ void Segment::Store(int64_t begin, const Span& span) {
  const int64_t length = reads_keys_ ? a_.query_length : a_.key_length;
  for (int row = span.first + threadIdx.x / kLanes; row < span.end(); row += kWarps) {
    const int64_t at = begin + row;
    const Array& to = reads_keys_ ? a_.grad_q : a_.grad_k;
    const int64_t head = reads_keys_ ? head_.head : head_.kv_head;
    const bool adds = reads_keys_ ? a_.add_to_queries : a_.add_to_keys;
    bool is_finite = StoreRow(to, to.At(head_.batch, head, at), a_.dim, adds,
                              work_.grad_x + row * a_.dim, work_.readers.x + row * a_.dim,
                              a_.map.norm_slope * shared_.sums[row], a_.sqrt_scale);
    if (!reads_keys_) {
      is_finite &= StoreRow(a_.grad_v, a_.grad_v.At(head_.batch, head, at), a_.value_dim, adds,
                            work_.grad_value + row * a_.value_dim, nullptr, 0, 1);
    }
    if (threadIdx.x % kLanes > 0) continue;
    if (!is_finite) atomicAdd(&shared_.unusable, 1);
    if (arguments_.log_weights != nullptr)
      arguments_.log_weights[index_ * length + at] = shared_.sums[row];
  }
  __syncthreads();
}

// Returns false if the span must be halved.
__device__ bool Segment::TrySpan(int64_t begin, const Span& span) {
  const double* maximum = state_.c;
  if (arguments_.causal) {
    if (!WeighAdded(a_, reads_keys_, work_.added, span, shared_.decay, state_, work_.joining))
      return false;
    maximum = work_.joining.maximum;
  }
  if (WeighReaders(span, maximum) && arguments_.causal && span.count > 1) return false;
  ReadState(span);
  if (!reads_keys_) ReadValues(span);
  if (arguments_.causal) ReadAdded(span);
  FindGradients(span, maximum);
  Store(begin, span);
  if (arguments_.causal) {
    JoinState(a_, reads_keys_, work_.added, span, shared_.decay, state_, work_.joining,
              shared_.tiles);
  }
  return true;
}

__device__ void Segment::Run() {
  const Cut& cut = arguments_.cut;
  const int width = a_.map.width;
  const int64_t begin = item_ % cut.segments * cut.rows;
  const int64_t end = min(begin + cut.rows, reads_keys_ ? a_.query_length : a_.key_length);
  if (arguments_.causal) {
    CopyState(a_, arguments_.states, item_, state_);
  } else {
    const int64_t first = index_ * arguments_.state_stride * width;
    for (int r = threadIdx.x; r < width; r += kBlockThreads)
      state_.c[r] = arguments_.states.c[first + r];
    state_.z = arguments_.states.z + first;
    state_.s = arguments_.states.s + first * a_.value_dim;
    __syncthreads();
  }
  const int64_t panels = end > begin ? (end - begin + kPanelRows - 1) / kPanelRows : 0;
  for (int64_t i = 0; i < panels; ++i) {
    const int64_t first = begin + (reads_keys_ ? i : panels - 1 - i) * kPanelRows;
    const int count = static_cast<int>(min(int64_t{kPanelRows}, end - first));
    LoadPanels(first, count);
    if (arguments_.causal) {
      ForSpans(reads_keys_, count, [&](const Span& span) { return TrySpan(first, span); });
    } else {
      TrySpan(first, {0, count});
    }
  }
}

__global__ void __launch_bounds__(kBlockThreads, 2)
    GradientsKernel(const __grid_constant__ Call a,
                    const __grid_constant__ GradientsArguments arguments) {
  __shared__ GradientsShared shared;
  if (threadIdx.x == 0) shared.unusable = 0;
  __syncthreads();
  const GradientsWork work(arguments.memory + blockIdx.x * arguments.floats, a, arguments.causal,
                           &shared);
  for (int64_t item = blockIdx.x; item < a.groups * arguments.cut.segments; item += gridDim.x) {
    if (arguments.only == nullptr || arguments.only[item] != 0)
      Segment(a, arguments, work, shared, item).Run();
  }
  __syncthreads();
  if (threadIdx.x == 0) AddToTally(&a.tally->unusable, shared.unusable);
}

}  // namespace

void Gradients(const Call& a, Side side, bool causal, const Cut& cut, int64_t state_stride,
               const SegmentStates& states, float* log_weights, const int* only,
               const Context& context) {
  const int64_t floats = GradientsWork(nullptr, a, causal, nullptr).carver.used();
  const int64_t blocks = BlocksFor(a.groups * cut.segments, floats, only != nullptr);
  const DeviceScratch<float> memory(context, blocks * floats);
  GradientsKernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0,
                    static_cast<cudaStream_t>(UseStream(context))>>>(a,
                                                                     {.side = side,
                                                                      .causal = causal,
                                                                      .cut = cut,
                                                                      .state_stride = state_stride,
                                                                      .states = states,
                                                                      .log_weights = log_weights,
                                                                      .only = only,
                                                                      .memory = memory.data(),
                                                                      .floats = floats});
  Check(kName);
}

}  // namespace favor::kernels::cuda::general
