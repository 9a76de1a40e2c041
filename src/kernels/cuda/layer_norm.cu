// Layer norm is memory-bound: a row is read once into registers, its statistics are sums over
// those, and the result is written once.
#include "kernels/layer_norm.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_group.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr char kName[] = "layer norm";
constexpr int64_t kMostBlocks = int64_t{1} << 30;  // blocks of a grid
constexpr int kShares = 32;  // threads that share the parts of a gradient of gain or bias

struct Forward {
  const float *x, *gain, *bias;
  float epsilon;
  bool again;
  int64_t rows;
  uint32_t width;
  float *statistics, *y;
};

struct Backward {
  const float *x, *gain, *statistics, *grad_y;
  bool add;
  int64_t rows;
  uint32_t width;
  float* grad_x;
  float* parts;  // [blocks, 2, width]: what each block's rows add to the gradients of gain and bias
};

// Mean and 1/√(variance + ε) of a row, in three passes over registers. With u = 2⁻²⁴ and k
// roundings between an element and the sum (kHeld and the nine levels of a tree), Σx/width is off
// by up to k·u·|mean|, which the sum of deviations from it corrects: what is left is the rounding
// of the mean itself, u·|mean|, and k·u standard deviations. Squares of deviations from that mean
// give the variance within k·u of itself, however large the offset of the row is. The CPU, which
// sums in double, stores the mean with the same rounding.
template <int kVector>
__device__ float2 Statistics(const Forward& a, const float* x, uint32_t width,
                             const float (&held)[kHeld], int& turn) {
  const auto count = static_cast<float>(a.width);
  // Calls add(value) for the values of the row that this thread reads.
  const auto for_each = [&](const auto& add) {
    ForHeld<kVector>(width, [&](int i, uint32_t) {
#pragma unroll
      for (int c = 0; c < kVector; ++c) add(held[i + c]);
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      const Vector<kVector> in = Load<kVector>(x + column);
#pragma unroll
      for (int c = 0; c < kVector; ++c) add(in.at[c]);
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

template <int kVector>
__global__ void __launch_bounds__(kMostThreads, 2) ForwardKernel(const Forward a) {
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const uint32_t width = row < a.rows ? a.width : 0;
    const float* x = a.x + row * a.width;
    float held[kHeld];
    ForHeld<kVector>(width, [&](int i, uint32_t column) {
      const Vector<kVector> in = Load<kVector>(x + column);
#pragma unroll
      for (int c = 0; c < kVector; ++c) held[i + c] = in.at[c];
    });
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
    const auto write = [&](const float* in, uint32_t column) {
      const Vector<kVector> gain = Load<kVector>(a.gain + column);
      const Vector<kVector> bias = Load<kVector>(a.bias + column);
      Vector<kVector> out;
#pragma unroll
      for (int c = 0; c < kVector; ++c)
        out.at[c] = (in[c] - statistics.x) * statistics.y * gain.at[c] + bias.at[c];
      Store(out, a.y + row * a.width + column);
    };
    ForHeld<kVector>(width, [&](int i, uint32_t column) { write(held + i, column); });
    ForRest<kVector>(width, [&](uint32_t column) { write(Load<kVector>(x + column).at, column); });
  }
}

// Sums of the gradients of gain and bias over the rows of a block, for the columns that a thread
// holds; further columns are summed directly in `parts`.
template <int kVector>
class GainAndBias {
 public:
  __device__ GainAndBias(const Backward& a)
      : width_(a.width),
        gain_(a.parts + int64_t{2} * blockIdx.x * a.width),
        bias_(gain_ + a.width) {
    ForRest<kVector>(width_, [&](uint32_t column) {
      Store(Vector<kVector>{}, gain_ + column);
      Store(Vector<kVector>{}, bias_ + column);
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
      Vector<kVector> sums;
#pragma unroll
      for (int c = 0; c < kVector; ++c) sums.at[c] = held[i + c];
      Store(sums, (several ? of_groups + threadIdx.y * columns : to) + column);
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
template <int kVector>
__global__ void __launch_bounds__(kMostThreads) BackwardKernel(const Backward a) {
  GainAndBias<kVector> sums_over_rows(a);
  const auto count = static_cast<float>(a.width);
  int turn = 0;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < a.rows;
       first += int64_t{gridDim.x} * blockDim.y) {
    const int64_t row = first + threadIdx.y;
    const uint32_t width = row < a.rows ? a.width : 0;
    const float *x = a.x + row * a.width, *grad_y = a.grad_y + row * a.width;
    float* grad_x = a.grad_x + row * a.width;
    const float mean = width > 0 ? a.statistics[2 * row] : 0.0f;
    const float scale = width > 0 ? a.statistics[2 * row + 1] : 0.0f;

    float normal[kHeld], grad[kHeld];  // n and g
    float sums[2] = {0, 0};            // sums of g and g·n
    ForHeld<kVector>(width, [&](int i, uint32_t column) {
      const Vector<kVector> in = Load<kVector>(x + column), grads = Load<kVector>(grad_y + column);
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        normal[i + c] = in.at[c];
        grad[i + c] = grads.at[c];
      }
    });
    ForHeld<kVector>(width, [&](int i, uint32_t column) {
      const Vector<kVector> gain = Load<kVector>(a.gain + column);
#pragma unroll
      for (int c = 0; c < kVector; ++c) {
        normal[i + c] = (normal[i + c] - mean) * scale;
        sums_over_rows.AddHeld(i + c, grad[i + c], normal[i + c]);
        grad[i + c] *= gain.at[c];
        sums[0] += grad[i + c];
        sums[1] += grad[i + c] * normal[i + c];
      }
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      for (int c = 0; c < kVector; ++c) {
        const float n = (x[column + c] - mean) * scale, g = grad_y[column + c] * a.gain[column + c];
        sums_over_rows.AddRest(column + c, grad_y[column + c], n);
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
      Vector<kVector> out = a.add ? Load<kVector>(grad_x + column) : Vector<kVector>{};
#pragma unroll
      for (int c = 0; c < kVector; ++c) out.at[c] += result(grad[i + c], normal[i + c]);
      Store(out, grad_x + column);
    });
    ForRest<kVector>(width, [&](uint32_t column) {
      for (int c = 0; c < kVector; ++c) {
        const float g = grad_y[column + c] * a.gain[column + c];
        const float value = result(g, (x[column + c] - mean) * scale);
        grad_x[column + c] = a.add ? grad_x[column + c] + value : value;
      }
    });
  }
  sums_over_rows.Write();
}

// Adds the parts of all blocks, [parts, 2, width], in an order that is always the same.
__global__ void __launch_bounds__(kWarp* kShares)
    AddPartsKernel(const float* parts, int count, int64_t width, float* grad_gain,
                   float* grad_bias) {
  __shared__ double shares[kShares][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  double sum = 0;
  if (column < 2 * width) {
#pragma unroll 4
    for (int part = threadIdx.y; part < count; part += kShares)
      sum += parts[part * 2 * width + column];
  }
  shares[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= 2 * width) return;
  for (int share = 1; share < kShares; ++share) sum += shares[share][threadIdx.x];
  float* to = column < width ? grad_gain + column : grad_bias + (column - width);
  *to += static_cast<float>(sum);
}

int64_t BlocksOf(int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; }

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
  const cudaStream_t stream = StreamFor(kName, a.y, context);
  const Forward forward{.x = a.x.Data<float>(),
                        .gain = a.gain.Data<float>(),
                        .bias = a.bias.Data<float>(),
                        .epsilon = static_cast<float>(a.epsilon),
                        .again = a.again,
                        .rows = a.x.size(0),
                        .width = WidthOf(kName, a.x),
                        .statistics = a.statistics.Data<float>(),
                        .y = a.y.Data<float>()};
  if (forward.rows == 0 || forward.width == 0) return;
  const dim3 block = BlockOfRows(forward.width);
  const auto blocks = static_cast<unsigned>(std::min(BlocksOf(forward.rows, block.y), kMostBlocks));
  if (RowsAreAligned(forward.width, {forward.x, forward.gain, forward.bias, forward.y})) {
    ForwardKernel<4><<<blocks, block, 0, stream>>>(forward);
  } else {
    ForwardKernel<1><<<blocks, block, 0, stream>>>(forward);
  }
  Check(kName);
}

void LayerNormBackward(const LayerNormGradients& a, const Context& context) {
  const cudaStream_t stream = StreamFor(kName, a.grad_x, context);
  Backward backward{.x = a.x.Data<float>(),
                    .gain = a.gain.Data<float>(),
                    .statistics = a.statistics.Data<float>(),
                    .grad_y = a.grad_y.Data<float>(),
                    .add = a.add,
                    .rows = a.x.size(0),
                    .width = WidthOf(kName, a.x),
                    .grad_x = a.grad_x.Data<float>()};
  if (backward.rows == 0 || backward.width == 0) return;
  const dim3 block = BlockOfRows(backward.width);
  const size_t shared_bytes = block.y > 1 ? kNarrowBlock * kHeld * sizeof(float) : 0;
  const auto kernel =
      RowsAreAligned(backward.width, {backward.x, backward.gain, backward.grad_y, backward.grad_x})
          ? BackwardKernel<4>
          : BackwardKernel<1>;
  const int64_t parts =
      std::min(BlocksOf(backward.rows, block.y), BlocksAtATime(kernel, block, shared_bytes));
  const DeviceScratch<float> scratch(context, parts * 2 * backward.width);
  backward.parts = scratch.data();
  kernel<<<static_cast<unsigned>(parts), block, shared_bytes, stream>>>(backward);
  Check(kName);
  const auto blocks = static_cast<unsigned>(BlocksOf(int64_t{2} * backward.width, kWarp));
  AddPartsKernel<<<blocks, dim3(kWarp, kShares), 0, stream>>>(
      scratch.data(), static_cast<int>(parts), backward.width, a.grad_gain.Data<float>(),
      a.grad_bias.Data<float>());
  Check(kName);
}

}  // namespace favor::kernels::cuda
