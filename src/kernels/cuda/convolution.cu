// A thread has a packet of columns of some neighbouring rows, and loads every row that its taps
// read at once. Gradients of weights are sums over the rows of a block, then over blocks, in order.
#include "kernels/convolution.h"

#include <algorithm>
#include <numeric>

#include "kernels/cuda/parts/add_parts.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "convolution";
constexpr int kColumns = 4;       // neighbouring columns of a thread, at most
constexpr int kTaps = 4;          // taps of a thread at a time
constexpr int kRows = 8;          // neighbouring rows of a thread: a group
constexpr int kGroupsOfPart = 4;  // groups of a thread in a part of the gradient of weights

// y_t = Σ_i w_i ⊙ x_{t + first + direction·i}, which is also the gradient of x from that of y.
template <class T>
struct Filter {
  const T *x, *weight;
  const T* history;                               // rows before those of x; may be null
  int64_t before, history_stride, history_apart;  // strides of rows and of sequences
  int64_t taps, first, direction;
  const float* mask;
  bool masks_y;  // y of padding is 0; if false, x of padding does not exist
  int64_t batch, length, columns;
  int64_t x_stride, y_stride;  // of rows
  T* y;
};

// Neighbouring rows, the first of which is at `from`. Those that exists(i) denies are 0, unless
// `all` exist.
template <int kLength, class T, int kCount, class Exists>
__device__ void LoadRows(const T* from, int64_t stride, bool all, const Exists& exists,
                         Packed<T, kCount> (&rows)[kLength]) {
  if (all) {
#pragma unroll
    for (int i = 0; i < kLength; ++i) rows[i].Load(from + i * stride);
  } else {
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
      if (exists(i)) rows[i].Load(from + i * stride);
    }
  }
}

// Groups of a sequence: none has rows of two sequences.
__host__ __device__ int64_t GroupsOf(int64_t length) { return (length + kRows - 1) / kRows; }

// Calls body(begin of its sequence among all rows, its first row there) for the groups from `first`
// to `last`, `step` apart.
template <class Body>
__device__ void ForGroups(int64_t first, int64_t last, int64_t step, int64_t length,
                          const Body& body) {
  for (int64_t group = first; group < last; group += step) {
    const Quotient at = Divide(group, GroupsOf(length));
    body(at.quotient * length, at.rest * kRows);
  }
}

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads, 2) FilterKernel(const Filter<T> a) {
  constexpr int kLength = kRows + kTaps - 1;
  const int64_t first = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kCount;
  if (column >= a.columns) return;
  const auto work = [&](int64_t begin, int64_t t) {
    const float* mask = a.mask == nullptr ? nullptr : a.mask + begin;
    const auto is_padding = [&](int64_t row) { return mask != nullptr && mask[row] == 0; };
    float sums[kRows][kCount] = {};
    for (int64_t tap = 0; tap < a.taps; tap += kTaps) {
      // Row t + r of y reads row r + i of the window with the weight of of_row(i).
      const auto of_row = [&](int i) { return tap + (a.direction > 0 ? i : kTaps - 1 - i); };
      const int64_t nearest = t + a.first + a.direction * of_row(0);
      Packed<T, kCount> window[kLength];
      LoadRows(
          a.x + (begin + nearest) * a.x_stride + column, a.x_stride,
          nearest >= 0 && nearest + kLength <= a.length && (mask == nullptr || a.masks_y),
          [&](int i) {
            const int64_t row = nearest + i;
            return row >= 0 && row < a.length && (a.masks_y || !is_padding(row));
          },
          window);
      if (a.before > 0 && nearest < 0) {
        const T* history = a.history + begin / a.length * a.history_apart +
                           (a.before + nearest) * a.history_stride + column;
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
          if (nearest + i < 0 && nearest + i >= -a.before)
            window[i].Load(history + i * a.history_stride);
        }
      }
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        if (of_row(i) >= a.taps) continue;
        float weight[kCount];
        LoadFloats(a.weight + of_row(i) * a.columns + column, weight);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int c = 0; c < kCount; ++c) sums[r][c] += weight[c] * window[r + i][c];
        }
      }
    }
    T* y = a.y + (begin + t) * a.y_stride + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (t + r >= a.length) break;
      if (a.masks_y && is_padding(t + r)) {
#pragma unroll
        for (int c = 0; c < kCount; ++c) sums[r][c] = 0;
      }
      StoreFloats(sums[r], y + r * a.y_stride);
    }
  };
  ForGroups(first, a.batch * GroupsOf(a.length), int64_t{gridDim.x} * blockDim.y, a.length, work);
}

// Gradients of taps first_tap … first_tap + taps − 1, at most kTaps, and, if these are all, of x.
template <class T>
struct Gradients {
  const T *x, *weight, *grad_y;
  int64_t first_tap, taps, ahead;
  const float* mask;
  int64_t batch, length, columns;
  int64_t x_stride, grad_y_stride, grad_x_stride;  // of rows
  T* grad_x;                                       // may be null
  float* parts;                                    // [blocks along rows, taps, columns]
};

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads, 2) GradientKernel(const Gradients<T> a) {
  __shared__ float of_threads[kElementThreads * kCount];
  const int64_t tile = int64_t{blockIdx.y} * blockDim.x * kCount;
  const int64_t column = tile + threadIdx.x * kCount;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.y + threadIdx.y) * kGroupsOfPart;
  const int64_t last =
      column < a.columns ? min(first + kGroupsOfPart, a.batch * GroupsOf(a.length)) : 0;
  Packed<T, kCount> weights[kTaps];
  LoadRows(
      a.weight + a.first_tap * a.columns + column, a.columns, /*all=*/false,
      [&](int tap) { return first < last && tap < a.taps; }, weights);
  float sums[kTaps][kCount] = {};
  ForGroups(first, last, 1, a.length, [&](int64_t begin, int64_t t) {
    const float* mask = a.mask == nullptr ? nullptr : a.mask + begin;
    const auto exists = [&](int64_t row) {
      return row < a.length && (mask == nullptr || mask[row] != 0);
    };
    const bool whole = t + kRows <= a.length && mask == nullptr;
    const int64_t nearest = t + a.first_tap - a.ahead;
    Packed<T, kCount> in[kRows], grads[kRows + kTaps - 1];
    LoadRows(
        a.x + (begin + t) * a.x_stride + column, a.x_stride, whole,
        [&](int r) { return exists(t + r); }, in);
    LoadRows(
        a.grad_y + (begin + nearest) * a.grad_y_stride + column, a.grad_y_stride,
        nearest >= 0 && nearest + kRows + kTaps - 1 <= a.length,
        [&](int i) { return nearest + i >= 0 && nearest + i < a.length; }, grads);
    T* to = a.grad_x == nullptr ? nullptr : a.grad_x + (begin + t) * a.grad_x_stride + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float grad_x[kCount] = {};
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        if (tap >= a.taps) break;
#pragma unroll
        for (int c = 0; c < kCount; ++c) {
          const float grad = grads[r + tap][c];
          grad_x[c] += weights[tap][c] * grad;
          sums[tap][c] += in[r][c] * grad;
        }
      }
      if (to == nullptr || t + r >= a.length) continue;
      if (!whole && !exists(t + r)) {
#pragma unroll
        for (int c = 0; c < kCount; ++c) grad_x[c] = 0;
      }
      StoreFloats(grad_x, to + r * a.grad_x_stride);
    }
  });
  const unsigned tile_columns = blockDim.x * kCount;
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    if (tap >= a.taps) break;
    __syncthreads();  // until no thread reads the sums of the previous tap
#pragma unroll
    for (int c = 0; c < kCount; ++c)
      of_threads[threadIdx.y * tile_columns + threadIdx.x * kCount + c] = sums[tap][c];
    __syncthreads();
    for (unsigned i = threadIdx.y * blockDim.x + threadIdx.x;
         i < tile_columns && tile + i < a.columns; i += kElementThreads) {
      double sum = 0;
      for (unsigned y = 0; y < blockDim.y; ++y) sum += of_threads[y * tile_columns + i];
      a.parts[(blockIdx.x * a.taps + tap) * a.columns + tile + i] = static_cast<float>(sum);
    }
  }
}

template <class T>
void Apply(const Filter<T>& filter, cudaStream_t stream) {
  if (filter.batch * filter.length == 0 || filter.columns == 0) return;
  const int64_t of_history = std::gcd(filter.history_stride, filter.history_apart);
  const int64_t strides = std::gcd(std::gcd(filter.x_stride, filter.y_stride), of_history);
  const int64_t width = std::gcd(filter.columns, strides);
  WithRowPackets<T>(width, {filter.x, filter.weight, filter.y, filter.history}, [&](auto count) {
    constexpr int kCount = std::min(decltype(count)::kValue, kColumns);
    const dim3 block = BlockOverRows(filter.columns / kCount);
    const int64_t groups = filter.batch * GroupsOf(filter.length);
    const dim3 grid(BlocksFor(groups, block.y), BlocksFor(filter.columns, block.x * kCount));
    FilterKernel<T, kCount><<<grid, block, 0, stream>>>(filter);
  });
  Check(kName);
}

template <class T>
void AddGradients(Gradients<T> a, float* grad_weight, const Context& context) {
  const int64_t groups = a.batch * GroupsOf(a.length);
  if (groups == 0 || a.columns == 0 || a.taps == 0) return;
  const cudaStream_t stream = StreamOf(context);
  const int64_t strides = std::gcd(a.x_stride, std::gcd(a.grad_y_stride, a.grad_x_stride)),
                width = std::gcd(a.columns, strides);
  WithRowPackets<T>(width, {a.x, a.weight, a.grad_y, a.grad_x}, [&](auto count) {
    constexpr int kCount = std::min(decltype(count)::kValue, kColumns);
    const dim3 block = BlockOverRows(a.columns / kCount);
    const dim3 grid(BlocksFor(groups, block.y * kGroupsOfPart),
                    BlocksFor(a.columns, block.x * kCount));
    const DeviceScratch<float> parts(context, grid.x * a.taps * a.columns);
    a.parts = parts.data();
    GradientKernel<T, kCount><<<grid, block, 0, stream>>>(a);
    Check(kName);
    AddParts<float>(kName,
                    {.parts = a.parts,
                     .count = grid.x,
                     .width = a.taps * a.columns,
                     .first = grad_weight + a.first_tap * a.columns},
                    context);
  });
}

template <class T>
void ConvolvePart(const ConvolutionArguments& a, const ConstView& weight, int64_t first,
                  const Context& context) {
  const bool continues = !a.history.empty();
  Apply<T>({.x = ElementsOf<T>(a.x) + first,
            .weight = ElementsOf<T>(weight),
            .history = continues ? ElementsOf<T>(a.history) + first : nullptr,
            .before = continues ? a.history.size(1) : 0,
            .history_stride = continues ? a.history.stride(1) : 0,
            .history_apart = continues ? a.history.stride(0) : 0,
            .taps = weight.size(0),
            .first = a.ahead,
            .direction = -1,
            .mask = ElementsOf<float>(a.sequences.mask),
            .masks_y = false,
            .batch = a.sequences.batch,
            .length = a.sequences.length,
            .columns = weight.size(1),
            .x_stride = a.x.stride(0),
            .y_stride = a.y.stride(0),
            .y = ElementsOf<T>(a.y) + first},
           StreamOf(context));
}

template <class T>
void AddGradientsOfPart(const ConvolutionGradients& a, size_t part, int64_t first,
                        const Context& context) {
  const ConstView& weight = a.weights[part];
  const int64_t taps = weight.size(0);
  Gradients<T> gradients{.x = ElementsOf<T>(a.x) + first,
                         .weight = ElementsOf<T>(weight),
                         .grad_y = ElementsOf<T>(a.grad_y) + first,
                         .taps = taps,
                         .ahead = a.ahead,
                         .mask = ElementsOf<float>(a.sequences.mask),
                         .batch = a.sequences.batch,
                         .length = a.sequences.length,
                         .columns = weight.size(1),
                         .x_stride = a.x.stride(0),
                         .grad_y_stride = a.grad_y.stride(0),
                         .grad_x_stride = a.grad_x.stride(0),
                         .grad_x = ElementsOf<T>(a.grad_x) + first};
  float* grad_weight = a.grad_weights[part].template Data<float>();
  if (taps <= kTaps) return AddGradients(gradients, grad_weight, context);
  Apply<T>({.x = gradients.grad_y,
            .weight = gradients.weight,
            .taps = taps,
            .first = -a.ahead,
            .direction = 1,
            .mask = gradients.mask,
            .masks_y = true,
            .batch = a.sequences.batch,
            .length = gradients.length,
            .columns = gradients.columns,
            .x_stride = gradients.grad_y_stride,
            .y_stride = gradients.grad_x_stride,
            .y = gradients.grad_x},
           StreamOf(context));
  gradients.grad_x = nullptr;
  for (int64_t tap = 0; tap < taps; tap += kTaps) {
    gradients.first_tap = tap;
    gradients.taps = std::min<int64_t>(kTaps, taps - tap);
    AddGradients(gradients, grad_weight, context);
  }
}

}  // namespace

void Convolution(const ConvolutionArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    int64_t first = 0;
    for (const ConstView& weight : a.weights) {
      ConvolvePart<decltype(element)>(a, weight, first, context);
      first += weight.size(1);
    }
  });
}

void ConvolutionBackward(const ConvolutionGradients& a, const Context& context) {
  WithElements(kName, a.grad_x, [&](auto element) {
    int64_t first = 0;
    for (size_t part = 0; part < a.weights.size(); ++part) {
      AddGradientsOfPart<decltype(element)>(a, part, first, context);
      first += a.weights[part].size(1);
    }
  });
}

}  // namespace favor::kernels::cuda
