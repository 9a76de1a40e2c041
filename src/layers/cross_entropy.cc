#include "layers/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"
#include "kernels/vector_math.h"

namespace favor::layers {
namespace {

double Exponential(double x) { return std::exp(x); }
float Exponential(float x) { return kernels::vector_math::Exp(x); }

// One row; returns its loss and replaces logits by probabilities where a gradient is wanted.
template <class T>
Score ScoreRow(T* logits, int64_t classes, int32_t target, double grad_scale) {
  const T* largest = std::max_element(logits, logits + classes);
  const T most = *largest, at_target = logits[target];
  const auto best = static_cast<int32_t>(largest - logits);
  double parts[8] = {};
  int64_t i = 0;
  const bool gradient = grad_scale != 0;
  for (; i + 8 <= classes; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const T e = Exponential(logits[i + lane] - most);
      parts[lane] += static_cast<double>(e);
      if (gradient) logits[i + lane] = e;
    }
  }
  for (; i < classes; ++i) {
    const T e = Exponential(logits[i] - most);
    parts[0] += static_cast<double>(e);
    if (gradient) logits[i] = e;
  }
  double sum = 0;
  for (const double part : parts) sum += part;
  if (gradient) {
    const T scale = static_cast<T>(grad_scale / sum);
    for (int64_t j = 0; j < classes; ++j) logits[j] *= scale;
    logits[target] -= static_cast<T>(grad_scale);
  }
  return {.loss = std::log(sum) + static_cast<double>(most) - static_cast<double>(at_target),
          .correct = best == target ? 1 : 0,
          .count = 1};
}

}  // namespace

Score CrossEntropy(const Context& context, View logits, std::span<const int32_t> targets,
                   double grad_scale) {
  Score score;
  kernels::cpu::WithType(logits.type(), [&]<class T>(T) {
    const int64_t classes = logits.size(1);
    score = ParallelReduce(
        context, logits.size(0), kernels::cpu::RowsOfTask(classes), Score(),
        [&](int64_t begin, int64_t end) {
          Score part;
          for (int64_t row = begin; row < end; ++row) {
            part += ScoreRow(logits.Data<T>() + row * classes, classes,
                             targets[static_cast<size_t>(row)], grad_scale);
          }
          return part;
        },
        [](Score& sum, const Score& part) { sum += part; });
  });
  return score;
}

}  // namespace favor::layers
