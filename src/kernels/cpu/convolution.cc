#include "kernels/convolution.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {
namespace {

bool Exists(const Sequences& sequences, int64_t row) {
  return sequences.mask.empty() || sequences.mask.Data<float>()[row] != 0;
}

}  // namespace

// Whole rows, however many weights they have: parts of rows far apart are read slowly.
void Convolution(const ConvolutionArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t taps = a.weights[0].size(0), columns = a.y.size(1), length = a.sequences.length,
                  before = a.history.empty() ? 0 : a.history.size(1);
    const auto row_of_x = [&](int64_t row) { return a.x.Data<T>() + row * a.x.stride(0); };
    const auto row_before = [&](int64_t sequence, int64_t from) {
      return a.history.Data<T>() + sequence * a.history.stride(0) +
             (before + from) * a.history.stride(1);
    };
    ParallelForBlocks(context, a.y.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::fill_n(a.y.Data<T>() + row * a.y.stride(0), columns, T{0});
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t from = row % length - tap + a.ahead, source = row - tap + a.ahead;
          if (from < -before || from >= length) continue;
          if (from >= 0 && !Exists(a.sequences, source)) continue;
          const T* in = from < 0 ? row_before(row / length, from) : row_of_x(source);
          T* to = a.y.Data<T>() + row * a.y.stride(0);
          for (const ConstView& weight : a.weights) {
            const int64_t count = weight.size(1);
            const T* w = weight.Data<T>() + tap * count;
            for (int64_t j = 0; j < count; ++j) to[j] += w[j] * in[j];
            to += count;
            in += count;
          }
        }
      }
    });
  });
}

void ConvolutionBackward(const ConvolutionGradients& a, const Context& context) {
  constexpr int64_t kRows = 256;  // rows of one task; the sums of tasks are added in their order
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t taps = a.weights[0].size(0), columns = a.x.size(1), length = a.sequences.length;
    using Sums = std::vector<double>;  // [taps, columns]
    const Sums zero(static_cast<size_t>(taps * columns), 0.0);
    // Each row of x collects gradients from the rows of y that read it.
    const Sums total = ParallelReduce(
        context, a.x.size(0), kRows, zero,
        [&](int64_t begin, int64_t end) {
          Sums grad_w = zero;
          for (int64_t row = begin; row < end; ++row) {
            std::fill_n(a.grad_x.Data<T>() + row * a.grad_x.stride(0), columns, T{0});
            if (!Exists(a.sequences, row)) continue;
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t at = row % length + tap - a.ahead;
              if (at < 0 || at >= length) continue;
              const T *in = a.x.Data<T>() + row * a.x.stride(0),
                      *grad = a.grad_y.Data<T>() + (row + tap - a.ahead) * a.grad_y.stride(0);
              T* to = a.grad_x.Data<T>() + row * a.grad_x.stride(0);
              double* sum = grad_w.data() + tap * columns;
              for (const ConstView& weight : a.weights) {
                const int64_t count = weight.size(1);
                const T* w = weight.Data<T>() + tap * count;
                for (int64_t j = 0; j < count; ++j) {
                  to[j] += w[j] * grad[j];
                  sum[j] += static_cast<double>(grad[j] * in[j]);
                }
                to += count;
                grad += count;
                in += count;
                sum += count;
              }
            }
          }
          return grad_w;
        },
        [](Sums& sum, const Sums& part) {
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        });
    int64_t first = 0;
    for (const View& grad_weight : a.grad_weights) {
      const int64_t count = grad_weight.size(1);
      for (int64_t tap = 0; tap < taps; ++tap) {
        T* to = grad_weight.Data<T>() + tap * count;
        const double* from = total.data() + tap * columns + first;
        for (int64_t j = 0; j < count; ++j) to[j] += static_cast<T>(from[j]);
      }
      first += count;
    }
  });
}

}  // namespace favor::kernels::cpu
