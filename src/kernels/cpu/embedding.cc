#include "kernels/embedding.h"

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void Embedding(const EmbeddingArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    const int64_t width = a.y.size(1);
    const T scale = static_cast<T>(a.scale);
    ParallelForBlocks(context, a.y.size(0), RowsOfTask(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = a.table.Data<T>() + a.rows.At(row) * width;
        T* to = a.y.Data<T>() + row * width;
        for (int64_t i = 0; i < width; ++i)
          to[i] = a.add ? to[i] + scale * from[i] : scale * from[i];
      }
    });
  });
}

void EmbeddingBackward(const EmbeddingGradients& a, const Context& context) {
  // Rows may share an entry: a task owns some columns and adds the rows in their order.
  constexpr int64_t kColumns = 64;
  WithType(a.grad_table.type(), [&]<class T>(T) {
    const int64_t width = a.grad_y.size(1);
    const T scale = static_cast<T>(a.scale);
    ParallelForBlocks(context, width, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < a.grad_y.size(0); ++row) {
        const T* from = a.grad_y.Data<T>() + row * width;
        T* to = a.grad_table.Data<T>() + a.rows.At(row) * width;
        for (int64_t i = begin; i < end; ++i) to[i] += scale * from[i];
      }
    });
  });
}

}  // namespace favor::kernels::cpu
