#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"
#include "kernels/vector_math.h"

namespace favor::kernels::cpu {
namespace {

double Exponential(double x) { return std::exp(x); }
float Exponential(float x) { return vector_math::Exp(x); }

struct Sums {
  double loss = 0;
  int64_t correct = 0;
};

// Adds the loss of one row, and replaces its logits by their gradient if grad_scale is not 0.
template <class T>
void ScoreRow(T* logits, int64_t classes, int32_t target, double grad_scale, Sums& sums) {
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
  sums.loss += std::log(sum) + static_cast<double>(most) - static_cast<double>(at_target);
  sums.correct += best == target ? 1 : 0;
}

}  // namespace

void CrossEntropy(const CrossEntropyArguments& a, const Context& context) {
  WithType(a.logits.type(), [&]<class T>(T) {
    const int64_t classes = a.logits.size(1);
    const Sums total = ParallelReduce(
        context, a.logits.size(0), RowsOfTask(classes), Sums(),
        [&](int64_t begin, int64_t end) {
          Sums part;
          for (int64_t row = begin; row < end; ++row) {
            ScoreRow(a.logits.Data<T>() + row * classes, classes, a.targets[row], a.grad_scale,
                     part);
          }
          return part;
        },
        [](Sums& sum, const Sums& part) {
          sum.loss += part.loss;
          sum.correct += part.correct;
        });
    a.tally->loss += total.loss;
    a.tally->correct += total.correct;
    a.tally->targets += a.logits.size(0);
  });
}

}  // namespace favor::kernels::cpu
