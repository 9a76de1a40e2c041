#include "layers/convolution.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::layers {

Convolution::Convolution(ParameterSet& parameters, const std::string& name, int64_t taps,
                         int64_t columns, bool causal)
    : taps_(taps),
      ahead_(causal ? 0 : taps / 2),
      weight_(&parameters.Add(name + ".weight", {taps, columns},
                              {.deviation = 1 / std::sqrt(static_cast<double>(taps))}, true)) {}

void Convolution::Forward(const Context& context, const Sequences& sequences, ConstView x,
                          View y) const {
  kernels::cpu::WithType(y.type(), [&]<class T>(T) {
    const int64_t columns = y.size(1), length = sequences.length;
    ParallelForBlocks(
        context, y.size(0), kernels::cpu::RowsOfTask(columns), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            T* to = y.Data<T>() + row * columns;
            std::fill_n(to, columns, T{0});
            for (int64_t tap = 0; tap < taps_; ++tap) {
              const int64_t from = row % length - tap + ahead_, source = row - tap + ahead_;
              if (from < 0 || from >= length || !sequences.Exists(source)) continue;
              const T *w = weight_->value.Data<T>() + tap * columns,
                      *in = x.Data<T>() + source * columns;
              for (int64_t j = 0; j < columns; ++j) to[j] += w[j] * in[j];
            }
          }
        });
  });
}

void Convolution::Backward(const Context& context, const Sequences& sequences, ConstView x,
                           ConstView grad_y, View grad_x) {
  constexpr int64_t kRows = 256;  // of one task; the sums of tasks are added in their order
  kernels::cpu::WithType(grad_x.type(), [&]<class T>(T) {
    const int64_t columns = x.size(1), length = sequences.length;
    using Sums = std::vector<double>;
    const Sums zero(static_cast<size_t>(taps_ * columns), 0.0);
    // A token is the source of taps: each row of x collects from the rows that read it.
    const Sums total = ParallelReduce(
        context, x.size(0), kRows, zero,
        [&](int64_t begin, int64_t end) {
          Sums grad_w = zero;
          for (int64_t row = begin; row < end; ++row) {
            T* to = grad_x.Data<T>() + row * columns;
            std::fill_n(to, columns, T{0});
            if (!sequences.Exists(row)) continue;
            const T* in = x.Data<T>() + row * columns;
            for (int64_t tap = 0; tap < taps_; ++tap) {
              const int64_t at = row % length + tap - ahead_;
              if (at < 0 || at >= length) continue;
              const T *w = weight_->value.Data<T>() + tap * columns,
                      *grad = grad_y.Data<T>() + (row + tap - ahead_) * columns;
              double* sum = grad_w.data() + tap * columns;
              for (int64_t j = 0; j < columns; ++j) {
                to[j] += w[j] * grad[j];
                sum[j] += static_cast<double>(grad[j] * in[j]);
              }
            }
          }
          return grad_w;
        },
        [](Sums& sum, const Sums& part) {
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        });
    T* to = weight_->grad.Data<T>();
    for (size_t i = 0; i < total.size(); ++i) to[i] += static_cast<T>(total[i]);
  });
}

}  // namespace favor::layers
