#include "kernels/layer_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/typed.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Loops without branches, which the compiler turns into code for this target.

// The sum over a row in eight parts, so that it becomes SIMD code and rounds alike on every
// machine.
template <class Term>
HWY_INLINE double SumOf(int64_t count, const Term& term) {
  double parts[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) parts[lane] += term(i + lane);
  }
  for (; i < count; ++i) parts[0] += term(i);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

// Mean and 1/√(variance + ε).
template <class T>
HWY_INLINE void FindStatistics(const T* in, int64_t width, double epsilon, T* stored) {
  const auto count = static_cast<double>(width);
  const double mean = SumOf(width, [&](int64_t i) { return static_cast<double>(in[i]); }) / count;
  const double variance = SumOf(width,
                                [&](int64_t i) {
                                  const double centred = static_cast<double>(in[i]) - mean;
                                  return centred * centred;
                                }) /
                          count;
  stored[0] = static_cast<T>(mean);
  stored[1] = static_cast<T>(1 / std::sqrt(variance + epsilon));
}

template <class T>
HWY_INLINE void NormRows(const LayerNormArguments& a, int64_t begin, int64_t end) {
  const int64_t width = a.x.size(1);
  const T *HWY_RESTRICT gain = a.gain.Data<T>(), *HWY_RESTRICT bias = a.bias.Data<T>();
  for (int64_t row = begin; row < end; ++row) {
    const T* HWY_RESTRICT in = a.x.Data<T>() + row * width;
    T *stored = a.statistics.Data<T>() + 2 * row, *HWY_RESTRICT out = a.y.Data<T>() + row * width;
    if (!a.again) FindStatistics(in, width, a.epsilon, stored);
    const T mean = stored[0], scale = stored[1];
    for (int64_t i = 0; i < width; ++i) out[i] = (in[i] - mean) * scale * gain[i] + bias[i];
  }
}

// Adds the rows' share of the gradients of gain and bias to `grad_gain` and `grad_bias`.
template <class T>
HWY_INLINE void NormRowsBackward(const LayerNormGradients& a, int64_t begin, int64_t end,
                                 double* HWY_RESTRICT grad_gain, double* HWY_RESTRICT grad_bias) {
  const int64_t width = a.x.size(1);
  const auto count = static_cast<double>(width);
  const T* HWY_RESTRICT gain = a.gain.Data<T>();
  for (int64_t row = begin; row < end; ++row) {
    const T *in = a.x.Data<T>() + row * width, *grad = a.grad_y.Data<T>() + row * width;
    const T *stored = a.statistics.Data<T>() + 2 * row, mean = stored[0], scale = stored[1];
    const auto normal = [&](int64_t i) { return (in[i] - mean) * scale; };
    for (int64_t i = 0; i < width; ++i) {
      grad_gain[i] += static_cast<double>(grad[i] * normal(i));
      grad_bias[i] += static_cast<double>(grad[i]);
    }
    const T mean_grad = static_cast<T>(
        SumOf(width, [&](int64_t i) { return static_cast<double>(grad[i] * gain[i]); }) / count);
    const T mean_product = static_cast<T>(
        SumOf(width,
              [&](int64_t i) { return static_cast<double>(grad[i] * gain[i] * normal(i)); }) /
        count);
    T* out = a.grad_x.Data<T>() + row * width;
    const auto value = [&](int64_t i) {
      return scale * (grad[i] * gain[i] - mean_grad - normal(i) * mean_product);
    };
    if (a.add) {
      for (int64_t i = 0; i < width; ++i) out[i] += value(i);
    } else {
      for (int64_t i = 0; i < width; ++i) out[i] = value(i);
    }
  }
}

void NormOnTarget(const LayerNormArguments& a, int64_t begin, int64_t end) {
  WithType(a.y.type(), [&]<class T>(T) { NormRows<T>(a, begin, end); });
}
void NormBackwardOnTarget(const LayerNormGradients& a, int64_t begin, int64_t end,
                          double* grad_gain, double* grad_bias) {
  WithType(a.grad_x.type(),
           [&]<class T>(T) { NormRowsBackward<T>(a, begin, end, grad_gain, grad_bias); });
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(NormOnTarget);
HWY_EXPORT(NormBackwardOnTarget);

void LayerNorm(const LayerNormArguments& a, const Context& context) {
  ParallelForBlocks(context, a.x.size(0), RowsOfTask(a.x.size(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(NormOnTarget)(a, begin, end);
  });
}

void LayerNormBackward(const LayerNormGradients& a, const Context& context) {
  constexpr int64_t kRows = 256;  // rows of one task
  const int64_t rows = a.x.size(0), width = a.x.size(1), tasks = (rows + kRows - 1) / kRows;
  // Each task sums its rows' share for gain and bias; shares are added in their order.
  std::vector<double> shares(static_cast<size_t>(tasks * 2 * width), 0.0);
  ParallelForBlocks(context, rows, kRows, [&](int64_t begin, int64_t end) {
    double* share = shares.data() + begin / kRows * 2 * width;
    HWY_DYNAMIC_DISPATCH(NormBackwardOnTarget)(a, begin, end, share, share + width);
  });
  WithType(a.grad_x.type(), [&]<class T>(T) {
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
#endif  // HWY_ONCE
