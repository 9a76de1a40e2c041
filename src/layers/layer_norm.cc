#include "layers/layer_norm.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "layers/dispatch.h"

namespace favor::layers {
namespace {

// Sums of a row in eight parts, so that they become SIMD code and round alike everywhere.
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

}  // namespace

LayerNorm::LayerNorm(ParameterSet& parameters, const std::string& name, int64_t width,
                     const NormOptions& options)
    : weight_(&parameters.Add(name + ".weight", {width}, {.mean = options.gain}, false)),
      bias_(&parameters.Add(name + ".bias", {width}, {}, false)),
      epsilon_(options.epsilon) {}

void LayerNorm::Forward(const Context& context, ConstView x, View statistics, View y) const {
  WithType(x.type(), [&]<class T>(T) {
    const int64_t width = x.size(1);
    ParallelForBlocks(context, x.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* in = x.Data<T>() + row * width;
        const auto count = static_cast<double>(width);
        const double mean =
            SumOf(width, [&](int64_t i) { return static_cast<double>(in[i]); }) / count;
        const double variance = SumOf(width,
                                      [&](int64_t i) {
                                        const double centred = static_cast<double>(in[i]) - mean;
                                        return centred * centred;
                                      }) /
                                count;
        T* stored = statistics.Data<T>() + 2 * row;
        stored[0] = static_cast<T>(mean);
        stored[1] = static_cast<T>(1 / std::sqrt(variance + epsilon_));
      }
    });
  });
  Again(context, x, statistics, y);
}

void LayerNorm::Again(const Context& context, ConstView x, ConstView statistics, View y) const {
  WithType(x.type(), [&]<class T>(T) {
    const int64_t width = x.size(1);
    const T *gain = weight_->value.Data<T>(), *bias = bias_->value.Data<T>();
    ParallelForBlocks(context, x.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T *in = x.Data<T>() + row * width, *stored = statistics.Data<T>() + 2 * row;
        const T mean = stored[0], scale = stored[1];
        T* out = y.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) out[i] = (in[i] - mean) * scale * gain[i] + bias[i];
      }
    });
  });
}

void LayerNorm::Backward(const Context& context, ConstView x, ConstView statistics,
                         ConstView grad_y, View grad_x, bool add) {
  WithType(x.type(), [&]<class T>(T) {
    const int64_t rows = x.size(0), width = x.size(1);
    const T* gain = weight_->value.Data<T>();
    // Each task sums its rows' share for gain and bias; shares are added in their order.
    const int64_t tasks = (rows + kGradientRows - 1) / kGradientRows;
    std::vector<double> shares(static_cast<size_t>(tasks * 2 * width), 0.0);
    ParallelForBlocks(context, rows, kGradientRows, [&](int64_t begin, int64_t end) {
      double* grad_gain = shares.data() + begin / kGradientRows * 2 * width;
      double* grad_bias = grad_gain + width;
      for (int64_t row = begin; row < end; ++row) {
        const T *in = x.Data<T>() + row * width, *grad = grad_y.Data<T>() + row * width;
        const T *stored = statistics.Data<T>() + 2 * row, mean = stored[0], scale = stored[1];
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
        T* out = grad_x.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) {
          const T value = scale * (grad[i] * gain[i] - mean_grad - normal(i) * mean_product);
          out[i] = add ? out[i] + value : value;
        }
      }
    });
    T *to_gain = weight_->grad.Data<T>(), *to_bias = bias_->grad.Data<T>();
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

}  // namespace favor::layers
