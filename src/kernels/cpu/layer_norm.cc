#include "kernels/layer_norm.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

// The sum over a row in eight parts, so that it becomes SIMD code and rounds alike on every
// machine.
template <class Term>
double SumOf(int64_t count, const Term& term) {
  double parts[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) parts[lane] += term(i + lane);
  }
  for (; i < count; ++i) parts[0] += term(i);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

// Rows whose share of the gradients of gain and bias is summed by one task.
constexpr int64_t kGradientRows = 256;

template <class T>
void FindStatistics(const LayerNormArguments& a, const Context& context) {
  const int64_t width = a.x.size(1);
  ParallelForBlocks(context, a.x.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = a.x.Data<T>() + row * width;
      const auto count = static_cast<double>(width);
      const double mean =
          SumOf(width, [&](int64_t i) { return static_cast<double>(in[i]); }) / count;
      const double variance = SumOf(width,
                                    [&](int64_t i) {
                                      const double centred = static_cast<double>(in[i]) - mean;
                                      return centred * centred;
                                    }) /
                              count;
      T* stored = a.statistics.Data<T>() + 2 * row;
      stored[0] = static_cast<T>(mean);
      stored[1] = static_cast<T>(1 / std::sqrt(variance + a.epsilon));
    }
  });
}

}  // namespace

void LayerNorm(const LayerNormArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    if (!a.again) FindStatistics<T>(a, context);
    const int64_t width = a.x.size(1);
    const T *gain = a.gain.Data<T>(), *bias = a.bias.Data<T>();
    ParallelForBlocks(context, a.x.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T *in = a.x.Data<T>() + row * width, *stored = a.statistics.Data<T>() + 2 * row;
        const T mean = stored[0], scale = stored[1];
        T* out = a.y.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) out[i] = (in[i] - mean) * scale * gain[i] + bias[i];
      }
    });
  });
}

void LayerNormBackward(const LayerNormGradients& a, const Context& context) {
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t rows = a.x.size(0), width = a.x.size(1);
    const T* gain = a.gain.Data<T>();
    // Each task sums its rows' share for gain and bias; shares are added in their order.
    const int64_t tasks = (rows + kGradientRows - 1) / kGradientRows;
    std::vector<double> shares(static_cast<size_t>(tasks * 2 * width), 0.0);
    ParallelForBlocks(context, rows, kGradientRows, [&](int64_t begin, int64_t end) {
      double* grad_gain = shares.data() + begin / kGradientRows * 2 * width;
      double* grad_bias = grad_gain + width;
      for (int64_t row = begin; row < end; ++row) {
        const T *in = a.x.Data<T>() + row * width, *grad = a.grad_y.Data<T>() + row * width;
        const T *stored = a.statistics.Data<T>() + 2 * row, mean = stored[0], scale = stored[1];
        const auto normal = [&](int64_t i) { return (in[i] - mean) * scale; };
        for (int64_t i = 0; i < width; ++i) {
          grad_gain[i] += static_cast<double>(grad[i] * normal(i));
          grad_bias[i] += static_cast<double>(grad[i]);
        }
        const auto count = static_cast<double>(width);
        const T mean_grad = static_cast<T>(
            SumOf(width, [&](int64_t i) { return static_cast<double>(grad[i] * gain[i]); }) /
            count);
        const T mean_product = static_cast<T>(
            SumOf(width,
                  [&](int64_t i) { return static_cast<double>(grad[i] * gain[i] * normal(i)); }) /
            count);
        T* out = a.grad_x.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) {
          const T value = scale * (grad[i] * gain[i] - mean_grad - normal(i) * mean_product);
          out[i] = a.add ? out[i] + value : value;
        }
      }
    });
    T *to_gain = a.grad_gain.Data<T>(), *to_bias = a.grad_bias.Data<T>();
    for (int64_t i = 0; i < width; ++i) {
      double gain_sum = 0, bias_sum = 0;
      for (int64_t task = 0; task < tasks; ++task) {
        gain_sum += shares[static_cast<size_t>(task * 2 * width + i)];
        bias_sum += shares[static_cast<size_t>(task * 2 * width + width + i)];
      }
      to_gain[i] += static_cast<T>(gain_sum);
      to_bias[i] += static_cast<T>(bias_sum);
    }
  });
}

}  // namespace favor::kernels::cpu
