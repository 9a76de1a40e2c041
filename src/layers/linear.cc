#include "layers/linear.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/matmul.h"
#include "layers/dispatch.h"

namespace favor::layers {

Linear::Linear(ParameterSet& parameters, const std::string& name, int64_t in, int64_t out,
               double gain)
    : weight_(&parameters.Add(name + ".weight", {out, in},
                              {.deviation = gain / std::sqrt(static_cast<double>(in))}, true)),
      bias_(&parameters.Add(name + ".bias", {out}, {}, false)) {}

void Linear::Forward(const Context& context, ConstView x, View y) const {
  WithType(y.type(), [&]<class T>(T) {
    const T* bias = bias_->value.Data<T>();
    T* out = y.Data<T>();
    const int64_t columns = y.size(1);
    ParallelForBlocks(context, y.size(0), RowsOfTask(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) std::copy_n(bias, columns, out + row * columns);
    });
  });
  kernels::Matmul({x, kernels::Transposed(weight_->value), y, /*add=*/true}, context);
}

void Linear::Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                      bool add) {
  AddColumnSums(context, grad_y, bias_->grad);
  kernels::Matmul({kernels::Transposed(grad_y), x, weight_->grad, /*add=*/true}, context);
  kernels::Matmul({grad_y, weight_->value, grad_x, add}, context);
}

void AddColumnSums(const Context& context, ConstView rows, View grad) {
  constexpr int64_t kColumns = 64;
  WithType(grad.type(), [&]<class T>(T) {
    const T* values = rows.Data<T>();
    T* sums = grad.Data<T>();
    const int64_t columns = rows.size(1);
    ParallelForBlocks(context, columns, kColumns, [&](int64_t begin, int64_t end) {
      double total[kColumns] = {};
      for (int64_t row = 0; row < rows.size(0); ++row) {
        const T* in = values + row * rows.stride(0) + begin;
        for (int64_t j = 0; j < end - begin; ++j) total[j] += static_cast<double>(in[j]);
      }
      for (int64_t j = begin; j < end; ++j) sums[j] += static_cast<T>(total[j - begin]);
    });
  });
}

}  // namespace favor::layers
