#include "kernels/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/typed.h"
#include "kernels/vector_math.h"

#ifndef FAVOR_KERNELS_CPU_ENTROPY_SUMS_
#define FAVOR_KERNELS_CPU_ENTROPY_SUMS_
namespace favor::kernels::cpu {

struct EntropySums {
  double loss = 0;
  int64_t correct = 0;
};

}  // namespace favor::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Loops without branches, which the compiler turns into code for this target.
HWY_INLINE double Exponential(double x) { return std::exp(x); }
HWY_INLINE float Exponential(float x) { return vector_math::Exp(x); }

template <class T>
HWY_INLINE T Largest(const T* values, int64_t count) {
  T parts[16];
  std::fill_n(parts, 16, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int64_t lane = 0; lane < 16; ++lane)
      parts[lane] = values[i + lane] > parts[lane] ? values[i + lane] : parts[lane];
  }
  for (; i < count; ++i) parts[0] = values[i] > parts[0] ? values[i] : parts[0];
  return *std::max_element(parts, parts + 16);
}

// Σ e^(logit − most); with `gradient`, logits become these terms.
template <class T>
HWY_INLINE double SumOfExponentials(T* logits, int64_t classes, T most, bool gradient) {
  constexpr int64_t kChunk = 64;
  double parts[8] = {};
  for (int64_t begin = 0; begin < classes; begin += kChunk) {
    const int64_t count = std::min(kChunk, classes - begin);
    T terms[kChunk] = {};
    for (int64_t i = 0; i < count; ++i) terms[i] = Exponential(logits[begin + i] - most);
    for (int64_t i = 0; i < kChunk; i += 8) {
      for (int64_t lane = 0; lane < 8; ++lane) parts[lane] += static_cast<double>(terms[i + lane]);
    }
    if (gradient) std::copy_n(terms, count, logits + begin);
  }
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

// The loss of one row; replaces its logits by their gradient if grad_scale is not 0.
template <class T>
HWY_INLINE EntropySums ScoreRow(T* logits, int64_t classes, int32_t target, double grad_scale) {
  const T most = Largest(logits, classes), at_target = logits[target];
  // The first of the largest is what the model predicts.
  const bool correct =
      at_target == most && std::find(logits, logits + target, most) == logits + target;
  const double sum = SumOfExponentials(logits, classes, most, grad_scale != 0);
  if (grad_scale != 0) {
    const T scale = static_cast<T>(grad_scale / sum);
    for (int64_t j = 0; j < classes; ++j) logits[j] *= scale;
    logits[target] -= static_cast<T>(grad_scale);
  }
  return {.loss = std::log(sum) + static_cast<double>(most) - static_cast<double>(at_target),
          .correct = correct ? 1 : 0};
}

EntropySums ScoreOnTarget(float* logits, int64_t classes, int32_t target, double grad_scale) {
  return ScoreRow(logits, classes, target, grad_scale);
}
EntropySums ScoreInDoubleOnTarget(double* logits, int64_t classes, int32_t target,
                                  double grad_scale) {
  return ScoreRow(logits, classes, target, grad_scale);
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(ScoreOnTarget);
HWY_EXPORT(ScoreInDoubleOnTarget);

namespace {

EntropySums Score(float* logits, int64_t classes, int32_t target, double grad_scale) {
  return HWY_DYNAMIC_DISPATCH(ScoreOnTarget)(logits, classes, target, grad_scale);
}
EntropySums Score(double* logits, int64_t classes, int32_t target, double grad_scale) {
  return HWY_DYNAMIC_DISPATCH(ScoreInDoubleOnTarget)(logits, classes, target, grad_scale);
}
void Add(EntropySums& sum, const EntropySums& part) {
  sum.loss += part.loss;
  sum.correct += part.correct;
}

}  // namespace

void CrossEntropy(const CrossEntropyArguments& a, const Context& context) {
  WithType(a.logits.type(), [&]<class T>(T) {
    const int64_t classes = a.logits.size(1);
    const EntropySums total = ParallelReduce(
        context, a.logits.size(0), RowsOfTask(classes), EntropySums(),
        [&](int64_t begin, int64_t end) {
          EntropySums part;
          for (int64_t row = begin; row < end; ++row) {
            const int32_t target = a.targets[row];
            const double weight = a.weights == nullptr ? 1 : static_cast<double>(a.weights[target]);
            EntropySums one =
                Score(a.logits.Data<T>() + row * classes, classes, target, a.grad_scale * weight);
            one.loss *= weight;
            if (a.losses != nullptr) a.losses[row] = one.loss;
            Add(part, one);
          }
          return part;
        },
        Add);
    a.tally->loss += total.loss;
    a.tally->correct += total.correct;
    a.tally->targets += a.logits.size(0);
  });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
