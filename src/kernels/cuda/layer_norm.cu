// Layer norm is memory-bound: a row is read once into registers, its statistics are sums over
// those, and the result is written once.
#include "kernels/layer_norm.h"

#include "kernels/cuda/parts/add_parts.cuh"
#include "kernels/cuda/parts/element_threads.cuh"
#include "kernels/cuda/parts/launch.cuh"
#include "kernels/cuda/parts/row_group.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "layer norm";

template <class T>
struct Forward {
  const T *x, *gain, *bias;
  float epsilon;
  bool again;
  int64_t rows;
  uint32_t width;
  float* statistics;
  T* y;
};

template <class T>
struct Backward {
  const T *x, *gain, *grad_y;
  const float* statistics;
  bool add;
  int64_t rows;
  uint32_t width;
  T* grad_x;
  float* parts;  // [blocks, 2, width]: what each block's rows add to the gradients of gain and bias
};

// Mean and 1/√(variance + ε) of a row, in three passes over registers. With u = 2⁻²⁴ and k
// roundings between an element and the sum (kHeld and the nine levels of a tree), Σx/width is off
// by up to k·u·|mean|, which the sum of deviations from it corrects: what is left is the rounding
// of the mean itself, u·|mean|, and k·u standard deviations. Squares of deviations from that mean
// give the variance within k·u of itself, however large the offset of the row is. The CPU, which
// sums in double, stores the mean with the same rounding.
template <int kVector, class T>
__device__ float2 Statistics(const Forward<T>& a, const T* x, uint32_t width,
                             const HeldRow<T, kVector>& held, int& turn) {
  const auto count = static_cast<float>(a.width);
  // Calls add(value) for the values of the row that this thread reads.
  const auto for_each = [&](const auto& add) {
    ForHeld<kVector>(width, [&](int i, uint32_t) {
#pragma unroll
      for (int c = 0; c < kVector; ++c) add(held[i + c]);
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      float in[kVector];
      LoadFloats(x + column, in);
#pragma unroll
      for (int c = 0; c < kVector; ++c) add(in[c]);
    });
  };
  float sum[1] = {0};
  for_each([&](float value) { sum[0] += value; });
  SumOverGroup(turn, sum);
  const float about = sum[0] / count;
  float correction[1] = {0};
  for_each([&](float value) { correction[0] += value - about; });
  SumOverGroup(turn, correction);
  const float mean = about + correction[0] / count;
  float deviations[2] = {0, 0};  // Σ deviation (not 0, as the mean is rounded) and Σ deviation²
  for_each([&](float value) {
    const float deviation = value - mean;
    deviations[0] += deviation;
    deviations[1] += deviation * deviation;
  });
  SumOverGroup(turn, deviations);
  const float rest = deviations[0] / count;
  const float variance = deviations[1] / count - rest * rest;
  return {mean, 1.0f / sqrtf(max(variance, 0.0f) + a.epsilon)};
}

// The next row of a group is on its way while it works on one.
template <int kVector, class T>
__global__ void __launch_bounds__(kMostThreads, 2) ForwardKernel(const Forward<T> a) {
  const auto width_of = [&](int64_t row) { return row < a.rows ? a.width : 0; };
  const int64_t step = int64_t{gridDim.x} * blockDim.y;
  int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  HeldRow<T, kVector> next;
  next.Load(a.x + row * a.width, width_of(row));
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += step, row += step) {
    const uint32_t width = width_of(row);
    const T* x = a.x + row * a.width;
    const HeldRow<T, kVector> held = next;
    next.Load(x + step * a.width, width_of(row + step));
    float2 statistics{};
    if (!a.again) {
      statistics = Statistics<kVector>(a, x, width, held, turn);
      if (width > 0 && threadIdx.x == 0) {
        a.statistics[2 * row] = statistics.x;
        a.statistics[2 * row + 1] = statistics.y;
      }
    } else if (width > 0) {
      statistics = {a.statistics[2 * row], a.statistics[2 * row + 1]};
    }
    const auto write = [&](const auto& value, uint32_t column) {
      float gain[kVector], bias[kVector], out[kVector];
      LoadFloats(a.gain + column, gain);
      LoadFloats(a.bias + column, bias);
#pragma unroll
      for (int c = 0; c < kVector; ++c)
        out[c] = (value(c) - statistics.x) * statistics.y * gain[c] + bias[c];
      StoreFloats(out, a.y + row * a.width + column);
    };
    ForHeld<kVector>(
        width, [&](int i, uint32_t column) { write([&](int c) { return held[i + c]; }, column); });
    ForRest<kVector>(width, [&](uint32_t column) {
      float in[kVector];
      LoadFloats(x + column, in);
      write([&](int c) { return in[c]; }, column);
    });
  }
}

// Sums of the gradients of gain and bias over the rows of a block, for the columns that a thread
// holds; further columns are summed directly in `parts`.
template <int kVector>
class GainAndBias {
 public:
  template <class T>
  __device__ explicit GainAndBias(const Backward<T>& a)
      : width_(a.width),
        gain_(a.parts + int64_t{2} * blockIdx.x * a.width),
        bias_(gain_ + a.width) {
    const float zeros[kVector] = {};
    ForRest<kVector>(width_, [&](uint32_t column) {
      StoreFloats(zeros, gain_ + column);
      StoreFloats(zeros, bias_ + column);
    });
  }

  __device__ void AddHeld(int i, float grad, float normal) {
    held_gain_[i] += grad * normal;
    held_bias_[i] += grad;
  }
  __device__ void AddRest(uint32_t column, float grad, float normal) {
    gain_[column] += grad * normal;
    bias_[column] += grad;
  }

  __device__ void Write() {
    extern __shared__ float of_groups[];  // [groups, held columns] of several groups
    WriteOne(held_gain_, of_groups, gain_);
    WriteOne(held_bias_, of_groups, bias_);
  }

 private:
  __device__ void WriteOne(const float (&held)[kHeld], float* of_groups, float* to) {
    const bool several = blockDim.y > 1;
    const uint32_t columns = kHeld * blockDim.x;
    if (several) __syncthreads();  // until no thread reads the previous contents
    ForHeld<kVector>(width_, [&](int i, uint32_t column) {
      float sums[kVector];
#pragma unroll
      for (int c = 0; c < kVector; ++c) sums[c] = held[i + c];
      StoreFloats(sums, (several ? of_groups + threadIdx.y * columns : to) + column);
    });
    if (!several) return;
    __syncthreads();
    for (uint32_t column = threadIdx.y * blockDim.x + threadIdx.x; column < width_;
         column += blockDim.x * blockDim.y) {
      float sum = 0;
      for (uint32_t group = 0; group < blockDim.y; ++group)
        sum += of_groups[group * columns + column];
      to[column] = sum;
    }
  }

  uint32_t width_;
  float *gain_, *bias_;
  float held_gain_[kHeld] = {}, held_bias_[kHeld] = {};
};

// grad_x = scale·(g − mean of g − n·mean of g·n) with g = grad_y·gain, n = (x − mean)·scale.
template <int kVector, class T>
__global__ void __launch_bounds__(kMostThreads) BackwardKernel(const Backward<T> a) {
  GainAndBias<kVector> sums_over_rows(a);
  const auto count = static_cast<float>(a.width);
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const uint32_t width = row < a.rows ? a.width : 0;
    const T *x = a.x + row * a.width, *grad_y = a.grad_y + row * a.width;
    T* grad_x = a.grad_x + row * a.width;
    const float mean = width > 0 ? a.statistics[2 * row] : 0.0f;
    const float scale = width > 0 ? a.statistics[2 * row + 1] : 0.0f;

    HeldRow<T, kVector> in, grads, before;
    in.Load(x, width);
    grads.Load(grad_y, width);
    if (a.add) before.Load(grad_x, width);
    const auto normal = [&](int i) { return (in[i] - mean) * scale; };
    float sums[2] = {0, 0};  // sums of g and g·n
    ForHeld<kVector>(width, [&](int i, uint32_t column) {
      float gain[kVector];
      LoadFloats(a.gain + column, gain);
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        const float n = normal(i + c), g = grads[i + c] * gain[c];
        sums_over_rows.AddHeld(i + c, grads[i + c], n);
        sums[0] += g;
        sums[1] += g * n;
      }
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      float in[kVector], grads[kVector], gain[kVector];
      LoadFloats(x + column, in);
      LoadFloats(grad_y + column, grads);
      LoadFloats(a.gain + column, gain);
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        const float n = (in[c] - mean) * scale, g = grads[c] * gain[c];
        sums_over_rows.AddRest(column + c, grads[c], n);
        sums[0] += g;
        sums[1] += g * n;
      }
    });
    SumOverGroup(turn, sums);
    const float mean_grad = sums[0] / count, mean_product = sums[1] / count;
    const auto result = [&](float g, float n) {
      return scale * (g - mean_grad - n * mean_product);
    };
    ForHeld<kVector>(width, [&](int i, uint32_t column) {
      float gain[kVector], out[kVector];
      LoadFloats(a.gain + column, gain);
#pragma unroll
      for (int c = 0; c < kVector; ++c)
        out[c] = before[i + c] + result(grads[i + c] * gain[c], normal(i + c));
      StoreFloats(out, grad_x + column);
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      float in[kVector], grads[kVector], gain[kVector], out[kVector] = {};
      LoadFloats(x + column, in);
      LoadFloats(grad_y + column, grads);
      LoadFloats(a.gain + column, gain);
      if (a.add) LoadFloats(grad_x + column, out);
#pragma unroll
      for (int c = 0; c < kVector; ++c)
        out[c] += result(grads[c] * gain[c], (in[c] - mean) * scale);
      StoreFloats(out, grad_x + column);
    });
  }
  sums_over_rows.Write();
}

// Number of blocks that run at the same time. They share the rows of a gradient, so that there are
// only as many parts to add.
template <class Kernel>
int64_t BlocksAtATime(Kernel* kernel, const dim3& block, size_t shared_bytes) {
  int device = 0, processors = 0, blocks = 0;
  Check(kName, cudaGetDevice(&device));
  Check(kName, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  Check(kName, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                   &blocks, kernel, static_cast<int>(block.x * block.y), shared_bytes));
  return int64_t{processors} * blocks;
}

}  // namespace

void LayerNorm(const LayerNormArguments& a, const Context& context) {
  WithElements(kName, a.y, [&](auto element) {
    using T = decltype(element);
    const Forward<T> forward{.x = ElementsOf<T>(a.x),
                             .gain = ElementsOf<T>(a.gain),
                             .bias = ElementsOf<T>(a.bias),
                             .epsilon = static_cast<float>(a.epsilon),
                             .again = a.again,
                             .rows = a.x.size(0),
                             .width = WidthOf(kName, a.x),
                             .statistics = ElementsOf<float>(a.statistics),
                             .y = ElementsOf<T>(a.y)};
    if (forward.rows == 0 || forward.width == 0) return;
    const dim3 block = BlockOfRows(forward.width);
    const bool aligned = forward.width % kFullPacket<T> == 0 &&
                         AreAligned(16, {forward.x, forward.gain, forward.bias, forward.y});
    const auto kernel = aligned ? ForwardKernel<kFullPacket<T>, T> : ForwardKernel<1, T>;
    const int64_t blocks = std::min<int64_t>(BlocksFor(forward.rows, block.y),
                                             BlocksAtATime(kernel, block, /*shared_bytes=*/0));
    kernel<<<static_cast<unsigned>(blocks), block, 0, StreamOf(context)>>>(forward);
    Check(kName);
  });
}

void LayerNormBackward(const LayerNormGradients& a, const Context& context) {
  WithElements(kName, a.grad_x, [&](auto element) {
    using T = decltype(element);
    Backward<T> backward{.x = ElementsOf<T>(a.x),
                         .gain = ElementsOf<T>(a.gain),
                         .grad_y = ElementsOf<T>(a.grad_y),
                         .statistics = ElementsOf<float>(a.statistics),
                         .add = a.add,
                         .rows = a.x.size(0),
                         .width = WidthOf(kName, a.x),
                         .grad_x = ElementsOf<T>(a.grad_x)};
    if (backward.rows == 0 || backward.width == 0) return;
    const dim3 block = BlockOfRows(backward.width);
    const size_t shared_bytes = block.y > 1 ? kNarrowBlock * kHeld * sizeof(float) : 0;
    const bool aligned =
        backward.width % kFullPacket<T> == 0 &&
        AreAligned(16, {backward.x, backward.gain, backward.grad_y, backward.grad_x});
    const auto kernel = aligned ? BackwardKernel<kFullPacket<T>, T> : BackwardKernel<1, T>;
    const int64_t parts = std::min<int64_t>(BlocksFor(backward.rows, block.y),
                                            BlocksAtATime(kernel, block, shared_bytes));
    const DeviceScratch<float> scratch(context, parts * 2 * backward.width);
    backward.parts = scratch.data();
    kernel<<<static_cast<unsigned>(parts), block, shared_bytes, StreamOf(context)>>>(backward);
    Check(kName);
    AddParts(kName,
             PartSums<float>{.parts = scratch.data(),
                             .count = parts,
                             .width = backward.width,
                             .first = ElementsOf<float>(a.grad_gain),
                             .second = ElementsOf<float>(a.grad_bias)},
             context);
  });
}

}  // namespace favor::kernels::cuda
