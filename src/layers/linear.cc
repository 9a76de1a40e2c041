#include "layers/linear.h"

#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"
#include "kernels/matmul.h"

namespace favor::layers {

Linear::Linear(ParameterSet& parameters, const std::string& name, int64_t in, int64_t out,
               double gain)
    : weight_(&parameters.Add(name + ".weight", {out, in},
                              {.deviation = gain / std::sqrt(static_cast<double>(in))}, true)),
      bias_(&parameters.Add(name + ".bias", {out}, {}, false)) {}

void Linear::Forward(const Context& context, ConstView x, View y) const {
  kernels::Matmul(
      {.a = x, .b = kernels::Transposed(weight_->value), .c = y, .bias = ConstView(bias_->value)},
      context);
}

void Linear::Backward(const Context& context, ConstView x, ConstView grad_y, View grad_x,
                      bool add) {
  AddColumnSums(context, grad_y, bias_->grad);
  kernels::Matmul({kernels::Transposed(grad_y), x, weight_->grad, /*add=*/true}, context);
  kernels::Matmul({grad_y, weight_->value, grad_x, add}, context);
}

void AddColumnSums(const Context& context, ConstView rows, View grad) {
  constexpr int64_t kRows = 256;  // of one task; the sums of tasks are added in their order
  kernels::cpu::WithType(grad.type(), [&]<class T>(T) {
    const int64_t columns = rows.size(1);
    using Sums = std::vector<double>;
    const Sums total = ParallelReduce(
        context, rows.size(0), kRows, Sums(static_cast<size_t>(columns), 0.0),
        [&](int64_t begin, int64_t end) {
          Sums sums(static_cast<size_t>(columns), 0.0);
          for (int64_t row = begin; row < end; ++row) {
            const T* in = rows.Data<T>() + row * rows.stride(0);
            for (size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(in[j]);
          }
          return sums;
        },
        [](Sums& sum, const Sums& part) {
          for (size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
        });
    T* to = grad.Data<T>();
    for (int64_t j = 0; j < columns; ++j) to[j] += static_cast<T>(total[static_cast<size_t>(j)]);
  });
}

}  // namespace favor::layers
