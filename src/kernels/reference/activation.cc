#include "kernels/activation.h"

#include <cmath>
#include <numbers>

#include "core/parallel.h"

namespace favor::kernels::reference {
namespace {

constexpr int64_t kTask = 4096;

double Distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double Density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

constexpr double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;

double Value(Activation f, double x) {
  switch (f) {
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGelu:
      return x * Distribution(x);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
  }
  return 0;
}
double Slope(Activation f, double x) {
  switch (f) {
    case Activation::kRelu:
      return x > 0 ? 1 : 0;
    case Activation::kGelu:
      return Distribution(x) + x * Density(x);
    case Activation::kGeluTanh: {
      const double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
    }
  }
  return 0;
}

}  // namespace

void Activate(const ActivationArguments& a, const Context& context) {
  const double* x = a.x.Data<double>();
  double* y = a.y.Data<double>();
  ParallelForBlocks(context, a.y.shape().Elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = Value(a.f, x[i]);
  });
}

void ActivateBackward(const ActivationGradients& a, const Context& context) {
  const double *x = a.x.Data<double>(), *grad_y = a.grad_y.Data<double>();
  double* grad_x = a.grad_x.Data<double>();
  double* y = a.y.empty() ? nullptr : a.y.Data<double>();
  ParallelForBlocks(context, a.grad_x.shape().Elements(), kTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) grad_x[i] = grad_y[i] * Slope(a.f, x[i]);
    for (int64_t i = begin; i < end && y != nullptr; ++i) y[i] = Value(a.f, x[i]);
  });
}

}  // namespace favor::kernels::reference
