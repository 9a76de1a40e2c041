#include "kernels/append_column.h"

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void AppendColumn(const AppendColumnArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t dim = a.x.size(1);
    const T scale = static_cast<T>(a.scale), offset = static_cast<T>(a.offset);
    ParallelForBlocks(context, a.x.size(0), RowsOfTask(dim), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = a.x.Data<T>() + row * dim;
        T* to = a.y.Data<T>() + row * (dim + 1);
        for (int64_t i = 0; i < dim; ++i) to[i] = scale * from[i];
        to[dim] = scale * (offset + (a.last.empty() ? T(0) : a.last.Data<T>()[row]));
      }
    });
  });
}

void AppendColumnBackward(const AppendColumnGradients& a, const Context& context) {
  WithType(a.grad_x.type(), [&]<class T>(T) {
    const int64_t dim = a.grad_x.size(1);
    const T scale = static_cast<T>(a.scale);
    ParallelForBlocks(context, a.grad_x.size(0), RowsOfTask(dim), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = a.grad_y.Data<T>() + row * (dim + 1);
        T* to = a.grad_x.Data<T>() + row * dim;
        for (int64_t i = 0; i < dim; ++i) to[i] = (a.add ? to[i] : T(0)) + scale * from[i];
        if (!a.grad_last.empty()) a.grad_last.Data<T>()[row] += scale * from[dim];
      }
    });
  });
}

}  // namespace favor::kernels::cpu
