#include "kernels/scale_rows.h"

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void ScaleRows(const ScaleRowsArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t columns = a.y.size(1);
    ParallelForBlocks(context, a.y.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T factor = a.factors.Data<T>()[row];
        const T* from = a.x.Data<T>() + row * columns;
        T* to = a.y.Data<T>() + row * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] = factor * from[j];
      }
    });
  });
}

void ScaleRowsBackward(const ScaleRowsGradients& a, const Context& context) {
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t columns = a.grad_x.size(1);
    ParallelForBlocks(
        context, a.grad_x.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            const T factor = a.factors.Data<T>()[row];
            const T *x = a.x.Data<T>() + row * columns, *from = a.grad_y.Data<T>() + row * columns;
            if (!a.grad_factors.empty()) {
              double sum = 0;
              for (int64_t j = 0; j < columns; ++j)
                sum += static_cast<double>(from[j]) * static_cast<double>(x[j]);
              a.grad_factors.Data<T>()[row] += static_cast<T>(sum);
            }
            T* to = a.grad_x.Data<T>() + row * columns;
            for (int64_t j = 0; j < columns; ++j) to[j] = factor * from[j];
          }
        });
  });
}

}  // namespace favor::kernels::cpu
