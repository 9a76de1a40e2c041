#include "experiments/separation_task.h"

#include <algorithm>
#include <cmath>

#include "experiments/separation.h"

namespace favor::experiments {
namespace {

// How many examples `is_one`, given the first column, gets right.
template <class IsOne>
int64_t CountRight(const SeparationTask& task, const SeparationExamples& examples,
                   const IsOne& is_one) {
  int64_t right = 0;
  std::vector<double> column(static_cast<size_t>(task.tokens));
  for (int64_t i = 0; i < examples.count(); ++i) {
    const float* rows = examples.rows.Data<float>() + i * task.tokens * task.dim;
    for (size_t j = 0; j < column.size(); ++j)
      column[j] = static_cast<double>(rows[static_cast<int64_t>(j) * task.dim]);
    right += is_one(column) == (examples.labels[static_cast<size_t>(i)] == 1) ? 1 : 0;
  }
  return right;
}

// log Σ_j exp(values_j).
double LogSum(const std::vector<double>& values) {
  const double largest = std::ranges::max(values);
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

}  // namespace

double SeparationTask::Shift(bool one) const {
  return (one ? a1 : a0) * std::sqrt(std::log(static_cast<double>(tokens)));
}

SeparationExamples DrawExamples(const SeparationTask& task, int64_t count,
                                const RandomStream& stream) {
  SeparationExamples examples{.rows = Tensor({count * task.tokens, task.dim}), .labels = {}};
  float* out = examples.rows.Data<float>();
  std::vector<double> noise(static_cast<size_t>(task.tokens));
  for (int64_t i = 0; i < count; ++i) {
    const RandomStream own = stream.Child(static_cast<uint64_t>(i));
    const bool one = own.Sign(0) > 0;
    const auto special = static_cast<int64_t>(own.Bits(1) % static_cast<uint64_t>(task.tokens));
    own.Child(0).FillNormal(0, noise);
    const Tokens tokens = SelfTokens({.tokens = task.tokens,
                                      .dim = task.dim,
                                      .a = one ? task.a1 : task.a0,
                                      .b = task.b,
                                      .c = task.c,
                                      .special = special})
                              .keys;
    for (size_t j = 0; j < noise.size(); ++j) {
      const double* row = tokens.rows[tokens.order[j]];
      *out++ = static_cast<float>(row[0] + task.noise * noise[j]);
      for (int64_t column = 1; column < task.dim; ++column)
        *out++ = static_cast<float>(row[column]);
    }
    examples.labels.push_back(one ? 1 : 0);
  }
  return examples;
}

int64_t RightByLikelihood(const SeparationTask& task, const SeparationExamples& examples) {
  // Given the special token j, x differs from noise by exp(x_j s/σ² − s²/(2σ²)), s the shift.
  const auto log_likelihood = [&](const std::vector<double>& column, bool one) {
    const double shift = task.Shift(one), variance = task.noise * task.noise;
    std::vector<double> terms;
    for (const double x : column) terms.push_back((x - shift / 2) * shift / variance);
    return LogSum(terms);
  };
  return CountRight(task, examples, [&](const std::vector<double>& column) {
    return log_likelihood(column, true) > log_likelihood(column, false);
  });
}

int64_t RightBySquares(const SeparationTask& task, const SeparationExamples& examples) {
  const double middle = static_cast<double>(task.tokens) * task.noise * task.noise +
                        (std::pow(task.Shift(true), 2) + std::pow(task.Shift(false), 2)) / 2;
  return CountRight(task, examples, [&](const std::vector<double>& column) {
    double sum = 0;
    for (const double x : column) sum += x * x;
    return sum > middle;
  });
}

}  // namespace favor::experiments
