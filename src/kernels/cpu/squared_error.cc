#include "kernels/squared_error.h"

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void SquaredError(const SquaredErrorArguments& a, const Context& context) {
  WithType(a.y.type(), [&]<class T>(T) {
    T* y = a.y.Data<T>();
    a.tally->loss += ParallelReduce(
        context, a.y.size(0), RowsOfTask(1), 0.0,
        [&](int64_t begin, int64_t end) {
          double sum = 0;
          for (int64_t row = begin; row < end; ++row) {
            const double error = static_cast<double>(y[row]) - static_cast<double>(a.targets[row]);
            sum += error * error;
            if (a.grad_scale != 0) y[row] = static_cast<T>(2 * a.grad_scale * error);
          }
          return sum;
        },
        [](double& sum, double part) { sum += part; });
    a.tally->targets += a.y.size(0);
  });
}

}  // namespace favor::kernels::cpu
