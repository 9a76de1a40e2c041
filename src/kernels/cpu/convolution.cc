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

void Convolution(const ConvolutionArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t taps = a.weight.size(0), columns = a.y.size(1), length = a.sequences.length;
    ParallelForBlocks(context, a.y.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = a.y.Data<T>() + row * a.y.stride(0);
        std::fill_n(to, columns, T{0});
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t from = row % length - tap + a.ahead, source = row - tap + a.ahead;
          if (from < 0 || from >= length || !Exists(a.sequences, source)) continue;
          const T *w = a.weight.Data<T>() + tap * columns,
                  *in = a.x.Data<T>() + source * a.x.stride(0);
          for (int64_t j = 0; j < columns; ++j) to[j] += w[j] * in[j];
        }
      }
    });
  });
}

void ConvolutionBackward(const ConvolutionGradients& a, const Context& context) {
  constexpr int64_t kRows = 256;  // rows of one task; the sums of tasks are added in their order
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t taps = a.weight.size(0), columns = a.x.size(1), length = a.sequences.length;
    using Sums = std::vector<double>;
    const Sums zero(static_cast<size_t>(taps * columns), 0.0);
    // Each row of x collects gradients from the rows of y that read it.
    const Sums total = ParallelReduce(
        context, a.x.size(0), kRows, zero,
        [&](int64_t begin, int64_t end) {
          Sums grad_w = zero;
          for (int64_t row = begin; row < end; ++row) {
            T* to = a.grad_x.Data<T>() + row * a.grad_x.stride(0);
            std::fill_n(to, columns, T{0});
            if (!Exists(a.sequences, row)) continue;
            const T* in = a.x.Data<T>() + row * a.x.stride(0);
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t at = row % length + tap - a.ahead;
              if (at < 0 || at >= length) continue;
              const T *w = a.weight.Data<T>() + tap * columns,
                      *grad = a.grad_y.Data<T>() + (row + tap - a.ahead) * a.grad_y.stride(0);
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
    T* to = a.grad_weight.Data<T>();
    for (size_t i = 0; i < total.size(); ++i) to[i] += static_cast<T>(total[i]);
  });
}

}  // namespace favor::kernels::cpu
