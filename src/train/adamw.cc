#include "train/adamw.h"

#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::train {
namespace {

constexpr int64_t kTask = 16384;

}  // namespace

AdamW::AdamW(const layers::ParameterSet& parameters, const AdamWOptions& options)
    : options_(options) {
  for (const auto& parameter : parameters.all()) {
    moments_.push_back({.name = parameter->name,
                        .first = Tensor(parameter->shape, parameters.type()),
                        .second = Tensor(parameter->shape, parameters.type())});
  }
}

void AdamW::Step(const Context& context, int64_t step, double rate, double gradient_scale,
                 layers::ParameterSet& parameters) {
  const auto t = static_cast<double>(step);
  const double first_correction = 1 / (1 - std::pow(options_.beta1, t)),
               second_correction = 1 / (1 - std::pow(options_.beta2, t));
  for (size_t index = 0; index < moments_.size(); ++index) {
    layers::Parameter& parameter = *parameters.all()[index];
    kernels::cpu::WithType(parameters.type(), [&]<class T>(T) {
      T* w = parameter.value.Data<T>();
      const T* g = parameter.grad.Data<T>();
      T *m = moments_[index].first.Data<T>(), *v = moments_[index].second.Data<T>();
      const auto scale = static_cast<T>(gradient_scale);
      const auto b1 = static_cast<T>(options_.beta1), b2 = static_cast<T>(options_.beta2);
      // Taken in double: near 1 a float has few digits left of the difference.
      const auto rest1 = static_cast<T>(1 - options_.beta1),
                 rest2 = static_cast<T>(1 - options_.beta2);
      const auto c1 = static_cast<T>(first_correction), c2 = static_cast<T>(second_correction);
      const auto epsilon = static_cast<T>(options_.epsilon), step_rate = static_cast<T>(rate);
      const auto keep = static_cast<T>(parameter.decays ? 1 - rate * options_.weight_decay : 1);
      ParallelForBlocks(
          context, parameter.shape.Elements(), kTask, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const T gradient = scale * g[i];
              m[i] = b1 * m[i] + rest1 * gradient;
              v[i] = b2 * v[i] + rest2 * gradient * gradient;
              w[i] = keep * w[i] - step_rate * (c1 * m[i]) / (std::sqrt(c2 * v[i]) + epsilon);
            }
          });
    });
  }
}

std::vector<models::NamedTensor> AdamW::State() const {
  std::vector<models::NamedTensor> state;
  for (const Moments& moments : moments_) {
    state.push_back({moments.First(), moments.first});
    state.push_back({moments.Second(), moments.second});
  }
  return state;
}

void AdamW::Check(const models::Checkpoint& checkpoint) const {
  for (const Moments& moments : moments_) {
    checkpoint.CheckNumbers(moments.First(), moments.first.shape());
    checkpoint.CheckNumbers(moments.Second(), moments.second.shape());
  }
}

void AdamW::Load(const models::Checkpoint& checkpoint) {
  for (Moments& moments : moments_) {
    checkpoint.Read(moments.First(), moments.first);
    checkpoint.Read(moments.Second(), moments.second);
  }
}

double GradientNorm(const Context& context, const layers::ParameterSet& parameters) {
  double squares = 0;
  for (const auto& parameter : parameters.all()) {
    kernels::cpu::WithType(parameters.type(), [&]<class T>(T) {
      const T* g = parameter->grad.template Data<T>();
      squares += ParallelReduce(
          context, parameter->shape.Elements(), kTask, 0.0,
          [&](int64_t begin, int64_t end) {
            double parts[8] = {};
            int64_t i = begin;
            for (; i + 8 <= end; i += 8) {
              for (int64_t lane = 0; lane < 8; ++lane) {
                const auto value = static_cast<double>(g[i + lane]);
                parts[lane] += value * value;
              }
            }
            for (; i < end; ++i) parts[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
            double sum = 0;
            for (const double part : parts) sum += part;
            return sum;
          },
          [](double& sum, double part) { sum += part; });
    });
  }
  return std::sqrt(squares);
}

}  // namespace favor::train
