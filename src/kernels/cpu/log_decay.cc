#include "kernels/log_decay.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/attention_problem.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

double LogSigmoid(double x) {
  return x >= 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x));
}

// row(i, place): row i of [batch·length, heads] is element `place` of [batch, heads, length] at
// head 0.
template <class Row>
void ForRows(const Context& context, const Sequences& sequences, int64_t heads, const Row& row) {
  const int64_t length = sequences.length;
  ParallelForBlocks(context, sequences.batch * length, RowsOfTask(heads),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i)
                        row(i, i / length * heads * length + i % length);
                    });
}

}  // namespace

void LogDecay(const LogDecayArguments& a, const Context& context) {
  const int64_t heads = a.log_decay.size(1), length = a.sequences.length;
  WithType(a.log_decay.type(), [&]<class T>(T) {
    const T* logits = a.logits.Data<T>();
    ForRows(context, a.sequences, heads, [&](int64_t row, int64_t place) {
      for (int64_t h = 0; h < heads; ++h) {
        const auto logit =
            static_cast<double>(logits[row * a.logits.stride(0) + h * a.logits.stride(1)]);
        a.log_decay.Data<T>()[place + h * length] =
            static_cast<T>(std::isfinite(logit) ? std::max(LogSigmoid(logit), kLeastLogDecay) : 0);
      }
    });
    const int64_t rows = a.logits.stride(0) == 0 ? 1 : a.logits.size(0);
    for (int64_t row = 0; row < rows; ++row) {
      bool finite = true;
      for (int64_t h = 0; h < heads; ++h)
        finite = finite && std::isfinite(logits[row * a.logits.stride(0) + h * a.logits.stride(1)]);
      a.tally->unusable += finite ? 0 : 1;
    }
  });
}

void LogDecayBackward(const LogDecayGradients& a, const Context& context) {
  const int64_t heads = a.grad_logits.size(1), length = a.sequences.length;
  WithType(a.grad_logits.type(), [&]<class T>(T) {
    ForRows(context, a.sequences, heads, [&](int64_t row, int64_t place) {
      for (int64_t h = 0; h < heads; ++h) {
        const auto logit = static_cast<double>(
            a.logits.Data<T>()[row * a.logits.stride(0) + h * a.logits.stride(1)]);
        const double slope = LogSigmoid(logit) >= kLeastLogDecay ? 1 / (1 + std::exp(logit)) : 0;
        a.grad_logits.Data<T>()[row * heads + h] = static_cast<T>(
            static_cast<double>(a.grad_log_decay.Data<T>()[place + h * length]) * slope);
      }
    });
  });
}

}  // namespace favor::kernels::cpu
