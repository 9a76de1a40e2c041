// Steps of a thread block over the rows of a panel: decay, maxima, weights, and rows that join a
// running state. MATH: a chunk behind a state (c, S) weighs its rows against C = max(c, max_j E_j),
// and queries read S·e^(c − C).
#ifndef FAVOR_KERNELS_CUDA_LINEAR_STEPS_CUH_
#define FAVOR_KERNELS_CUDA_LINEAR_STEPS_CUH_

#include "kernels/cuda/linear/rows.cuh"

namespace favor::kernels::cuda::general {

// Rows first … first + count − 1 of a panel.
struct Span {
  int first, count;

  __device__ int end() const { return first + count; }
};

// What the rows of a panel make those before them forget, in shared memory. Within a span, ℓ of the
// first row acts only on what is before the span.
struct PanelDecay {
  double own[kPanelRows];   // ℓ; 0 for rows that do not exist
  double sums[kPanelRows];  // up to each row
  bool forgets;

  __device__ double First(const Span& span) const { return own[span.first]; }
  __device__ double Total(const Span& span) const {
    return sums[span.end() - 1] - sums[span.first];
  }
  __device__ double UpTo(const Span& span, int row) const { return sums[row] - sums[span.first]; }
  __device__ double Behind(const Span& span, int row) const {
    return sums[span.end() - 1] - sums[row];
  }
  // e^(P_later − P_earlier)
  __device__ float Between(int later, int earlier) const {
    return forgets && later != earlier ? __expf(static_cast<float>(sums[later] - sums[earlier]))
                                       : 1.0f;
  }
};

__device__ inline void LoadDecay(const Call& a, const Head& head, int64_t begin, int count,
                                 PanelDecay& decay) {
  if (threadIdx.x == 0) decay.forgets = a.log_decay.data != nullptr;
  for (int row = threadIdx.x; row < count; row += kBlockThreads) {
    const int64_t index = begin + row;
    const bool exists =
        a.log_decay.data != nullptr &&
        (a.mask.data == nullptr || a.mask.Load(a.mask.At(head.batch, head.kv_head, index)) != 0);
    decay.own[row] = exists ? a.log_decay.Load(a.log_decay.At(head.batch, head.head, index)) : 0.0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (int row = 0; row < count; ++row) decay.sums[row] = sum += decay.own[row];
  }
  __syncthreads();
}

// Numbers of features and rows while rows join a state.
struct Joining {
  double *maximum, *end;  // [width]: C, and what c becomes
  float* lowered;         // [width], e^(c − C): what the state counts against C
  float *kept, *factor;   // [width], what the state and the rows count against the end
  float* added_kept;      // [rows], shared: what a row counts where the state will be
  float* reader_kept;     // [rows], shared: what the state counts at a row that reads it
};

__host__ __device__ inline Joining CarveJoining(Carver& carver, int width, float* added_kept,
                                                float* reader_kept) {
  Joining joining{};
  joining.maximum = carver.TakeDoubles(width);
  joining.end = carver.TakeDoubles(width);
  joining.lowered = carver.Take(width);
  joining.kept = carver.Take(width);
  joining.factor = carver.Take(width);
  joining.added_kept = added_kept;
  joining.reader_kept = reader_kept;
  return joining;
}

// e^(from − to), 0 if nothing is there.
__device__ inline float Lowered(double from, double to) {
  return from > -INFINITY ? Weight(from - to) : 0.0f;
}

// The largest exponent of feature r among the rows of a span that exist; −∞ without any. `moved`:
// [rows], added to them, or null.
__device__ inline double LargestOf(const MapConstants& map, const Panel& panel, const Span& span,
                                   int r, const double* moved) {
  double largest = -INFINITY;
  for (int row = span.first; row < span.end(); ++row) {
    if (!panel.numbers->exists[row]) continue;
    const double exponent = panel.e[row * map.width + r] + panel.numbers->shift[row];
    largest = fmax(largest, moved == nullptr ? exponent : exponent + moved[row]);
  }
  return largest;
}

// Weights of feature r of a span against `maximum`; returns their sum for z.
__device__ inline float WeighFeature(const MapConstants& map, const Panel& panel, const Span& span,
                                     int r, double maximum, const double* moved,
                                     const float* added_kept) {
  float sum = 0;
  for (int row = span.first; row < span.end(); ++row) {
    const int at = row * map.width + r;
    double exponent = panel.e[at] + panel.numbers->shift[row] - maximum;
    if (moved != nullptr) exponent += moved[row];
    float w = panel.numbers->exists[row] ? Weight(exponent) : 0.0f;
    if (panel.g != nullptr) w *= panel.g[at];
    panel.w[at] = w;
    w *= panel.numbers->multiple[row];
    sum += added_kept == nullptr ? w : w * added_kept[row];
  }
  return sum;
}

// S ← kept·S + factor·Σ_j added_kept_j w_j v_jᵀ
__device__ inline void JoinSums(const Call& a, const Panel& panel, const Span& span,
                                const Joining& joining, bool forgets, const RunningState& state,
                                ProductTiles& tiles) {
  Multiply({.a = panel.w + span.first * a.map.width,
            .a_row = 1,
            .a_depth = a.map.width,
            .b = panel.value + span.first * a.value_dim,
            .b_column = 1,
            .b_depth = a.value_dim,
            .rows = a.map.width,
            .columns = a.value_dim,
            .depth = span.count,
            .c = state.s,
            .c_row = a.value_dim,
            .adds = true,
            .kept = joining.kept,
            .row_factor = forgets ? joining.factor : nullptr,
            .depth_factor = forgets ? joining.added_kept + span.first : nullptr},
           tiles);
}

// Makes a state hold no rows.
__device__ inline void Clear(const Call& a, const RunningState& state) {
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads) {
    state.c[r] = -INFINITY;
    state.z[r] = 0;
  }
  for (int i = threadIdx.x; i < a.map.width * a.value_dim; i += kBlockThreads) state.s[i] = 0;
  __syncthreads();
}

// A state in floats as a running one.
__device__ inline void CopyState(const Call& a, const SegmentStates& from, int64_t index,
                                 const RunningState& state) {
  const int width = a.map.width;
  for (int r = threadIdx.x; r < width; r += kBlockThreads) {
    state.c[r] = from.c[index * width + r];
    state.z[r] = from.z[index * width + r];
  }
  const float* s = from.s + index * width * a.value_dim;
  for (int i = threadIdx.x; i < width * a.value_dim; i += kBlockThreads) state.s[i] = s[i];
  __syncthreads();
}

// Whether a condition of some thread holds. All threads of the block take part.
__device__ inline bool Any(bool condition) { return __syncthreads_or(condition) != 0; }

constexpr double kLargestFall = 40;  // of a maximum within a span that forgets

// Finds the weights of the rows of a span that will join the state, and C. `causal_forwards`: ℓ of
// the span's first row acts on the state before anything reads it; in the adjoint, which moves from
// the end, it acts behind all (JoinState). Returns false if decay is so strong that the span must
// be halved.
__device__ inline bool WeighAdded(const Call& a, bool forwards, const Panel& panel,
                                  const Span& span, const PanelDecay& decay,
                                  const RunningState& state, const Joining& joining) {
  const bool forgets = decay.forgets;
  const double first = forgets && forwards ? decay.First(span) : 0;
  const double total = forgets ? decay.Total(span) : 0;
  for (int row = span.first + threadIdx.x; forgets && row < span.end(); row += kBlockThreads) {
    const float up_to = __expf(static_cast<float>(decay.UpTo(span, row)));
    const float behind = __expf(static_cast<float>(decay.Behind(span, row)));
    joining.added_kept[row] = forwards ? behind : up_to;
    joining.reader_kept[row] = forwards ? up_to : behind;
  }
  __syncthreads();
  bool is_far = false;
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads) {
    const double c = state.c[r] + first;
    const double maximum = fmax(c, LargestOf(a.map, panel, span, r, nullptr));
    double end = maximum;
    if (forgets) {
      end = c + total;
      for (int row = span.first; row < span.end(); ++row) {
        if (!panel.numbers->exists[row]) continue;
        const double moved = forwards ? decay.Behind(span, row) : decay.UpTo(span, row);
        end = fmax(end, panel.e[row * a.map.width + r] + panel.numbers->shift[row] + moved);
      }
      is_far |= maximum - end > kLargestFall;
    }
    joining.maximum[r] = maximum;
    joining.end[r] = end;
    joining.lowered[r] = Lowered(c, maximum);
    joining.kept[r] = Lowered(c + total, end);
    joining.factor[r] = maximum > -INFINITY ? Weight(maximum - end) : 0.0f;
  }
  if (Any(is_far) && span.count > 1) return false;
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads)
    WeighFeature(a.map, panel, span, r, joining.maximum[r], nullptr, nullptr);
  __syncthreads();
  return true;
}

// The rows of WeighAdded join the state.
__device__ inline void JoinState(const Call& a, bool forwards, const Panel& panel, const Span& span,
                                 const PanelDecay& decay, const RunningState& state,
                                 const Joining& joining, ProductTiles& tiles) {
  const double behind = decay.forgets && !forwards ? decay.First(span) : 0;
  JoinSums(a, panel, span, joining, decay.forgets, state, tiles);
  for (int r = threadIdx.x; r < a.map.width; r += kBlockThreads) {
    float sum = 0;
    for (int row = span.first; row < span.end(); ++row) {
      const float w = panel.w[row * a.map.width + r] * panel.numbers->multiple[row];
      sum += decay.forgets ? w * joining.added_kept[row] : w;
    }
    state.z[r] = joining.kept[r] * state.z[r] + joining.factor[r] * sum;
    state.c[r] = joining.end[r] + behind;
  }
  __syncthreads();
}

// Does the spans of a panel of `count` rows, in the direction of the sweep. A span that
// try_span(span) cannot do is halved.
template <class TrySpan>
__device__ void ForSpans(bool forwards, int count, const TrySpan& try_span) {
  int done = 0, size = kPanelRows;
  while (done < count) {
    const int rows = min(size, count - done);
    const Span span{forwards ? done : count - done - rows, rows};
    if (!try_span(span)) {
      do size /= 2;
      while (size >= rows);
      continue;
    }
    done += rows;
    // As large as a half, a quarter … of the panel that begins here can be.
    size = done % kPanelRows == 0 ? kPanelRows : done & -done;
  }
}

}  // namespace favor::kernels::cuda::general

#endif  // FAVOR_KERNELS_CUDA_LINEAR_STEPS_CUH_
