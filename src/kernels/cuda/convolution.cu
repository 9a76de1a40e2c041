// A thread has a packet of columns of some neighbouring rows: what other taps read again is in the
// L1 cache. Gradients of weights are sums over the rows of a block, then over blocks, in order.
#include "kernels/convolution.h"

#include <algorithm>
#include <numeric>

#include "kernels/cuda/parts/add_parts.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_packets.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "convolution";
constexpr int kRows = 4;         // rows of a thread at a time
constexpr int kTaps = 4;         // taps whose gradients a thread has at a time
constexpr int kRowsOfPart = 32;  // rows of a thread in a part of the gradient of weights

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

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads) FilterKernel(const Filter<T> a) {
  const int64_t groups = (a.length + kRows - 1) / kRows;  // of the rows of a sequence
  ForEachRow(a.batch * groups, [&](int64_t group) {
    const Quotient at = Divide(group, groups);
    const int64_t begin = at.quotient * a.length, t = at.rest * kRows;
    const float* mask = a.mask == nullptr ? nullptr : a.mask + begin;
    const auto is_padding = [&](int64_t row) { return mask != nullptr && mask[row] == 0; };
    for (int64_t column = threadIdx.x * kCount; column < a.columns; column += blockDim.x * kCount) {
      const T* x = a.x + begin * a.x_stride + column;
      float sums[kRows][kCount] = {};
      for (int64_t tap = 0; tap < a.taps; ++tap) {
        float weight[kCount];
        LoadFloats(a.weight + tap * a.columns + column, weight);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const int64_t from = t + r + a.first + a.direction * tap;
          if (from < -a.before || from >= a.length) continue;
          if (from >= 0 && !a.masks_y && is_padding(from)) continue;
          const T* row = from < 0 ? a.history + at.quotient * a.history_apart +
                                        (a.before + from) * a.history_stride + column
                                  : x + from * a.x_stride;
          float in[kCount];
          LoadFloats(row, in);
#pragma unroll
          for (int c = 0; c < kCount; ++c) sums[r][c] += weight[c] * in[c];
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (t + r >= a.length) continue;
        const bool is_zero = a.masks_y && is_padding(t + r);
#pragma unroll
        for (int c = 0; c < kCount; ++c) sums[r][c] = is_zero ? 0.0f : sums[r][c];
        StoreFloats(sums[r], a.y + (begin + t + r) * a.y_stride + column);
      }
    }
  });
}

// Gradients of taps first_tap … first_tap + taps − 1, at most kTaps, and, if these are all, of x.
template <class T>
struct Gradients {
  const T *x, *weight, *grad_y;
  int64_t first_tap, taps, ahead;
  const float* mask;
  int64_t rows, length, columns;
  int64_t x_stride, grad_y_stride, grad_x_stride;  // of rows
  T* grad_x;                                       // may be null
  float* parts;                                    // [blocks along rows, taps, columns]
};

template <class T, int kCount>
__global__ void __launch_bounds__(kElementThreads, 2) GradientKernel(const Gradients<T> a) {
  __shared__ float of_threads[kElementThreads * kCount];
  const int64_t tile = int64_t{blockIdx.y} * blockDim.x * kCount;
  const int64_t column = tile + threadIdx.x * kCount;
  const int64_t begin = (int64_t{blockIdx.x} * blockDim.y + threadIdx.y) * kRowsOfPart;
  const int64_t end = column < a.columns ? min(begin + kRowsOfPart, a.rows) : 0;
  float weights[kTaps][kCount] = {}, sums[kTaps][kCount] = {};
  if (a.grad_x != nullptr && begin < end) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      if (tap < a.taps)
        LoadFloats(a.weight + (a.first_tap + tap) * a.columns + column, weights[tap]);
    }
  }
  int64_t t = Divide(begin, a.length).rest;
  for (int64_t row = begin; row < end; ++row) {
    float grad_x[kCount] = {};
    if (a.mask == nullptr || a.mask[row] != 0) {
      float in[kCount];
      LoadFloats(a.x + row * a.x_stride + column, in);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const int64_t after = a.first_tap + tap - a.ahead;  // of the row of y that reads this row
        if (tap >= a.taps || t + after < 0 || t + after >= a.length) continue;
        float grad[kCount];
        LoadFloats(a.grad_y + (row + after) * a.grad_y_stride + column, grad);
#pragma unroll
        for (int c = 0; c < kCount; ++c) {
          grad_x[c] += weights[tap][c] * grad[c];
          sums[tap][c] += in[c] * grad[c];
        }
      }
    }
    if (a.grad_x != nullptr) StoreFloats(grad_x, a.grad_x + row * a.grad_x_stride + column);
    if (++t == a.length) t = 0;
  }
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
  const int64_t strides =
      std::gcd(std::gcd(filter.x_stride, filter.y_stride), filter.history_stride);
  const int64_t width = std::gcd(filter.columns, strides);
  WithRowPackets<T>(width, {filter.x, filter.weight, filter.y, filter.history}, [&](auto count) {
    constexpr int kCount = decltype(count)::kValue;
    const dim3 block = BlockOverRows(filter.columns / kCount);
    const int64_t groups = filter.batch * ((filter.length + kRows - 1) / kRows);
    FilterKernel<T, kCount><<<BlocksFor(groups, block.y), block, 0, stream>>>(filter);
  });
  Check(kName);
}

template <class T>
void AddGradients(Gradients<T> a, float* grad_weight, const Context& context) {
  if (a.rows == 0 || a.columns == 0 || a.taps == 0) return;
  const cudaStream_t stream = StreamOf(context);
  const int64_t strides = std::gcd(a.x_stride, std::gcd(a.grad_y_stride, a.grad_x_stride)),
                width = std::gcd(a.columns, strides);
  WithRowPackets<T>(width, {a.x, a.weight, a.grad_y, a.grad_x}, [&](auto count) {
    constexpr int kCount = decltype(count)::kValue;
    const dim3 block = BlockOverRows(a.columns / kCount);
    const dim3 grid(BlocksFor(a.rows, block.y * kRowsOfPart),
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
                         .rows = a.grad_x.size(0),
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
