#include "kernels/column_sums.h"

#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/typed.h"

namespace favor::kernels::cpu {

void AddColumnSums(const ColumnSumsArguments& a, const Context& context) {
  constexpr int64_t kRows = 256;  // rows of one task; the sums of tasks are added in their order
  WithType(a.sums.type(), [&]<class T>(T) {
    const int64_t columns = a.rows.size(1);
    using Sums = std::vector<double>;
    const Sums total = ParallelReduce(
        context, a.rows.size(0), kRows, Sums(static_cast<size_t>(columns), 0.0),
        [&](int64_t begin, int64_t end) {
          Sums sums(static_cast<size_t>(columns), 0.0);
          for (int64_t row = begin; row < end; ++row) {
            const T* in = a.rows.Data<T>() + row * a.rows.stride(0);
            for (size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(in[j]);
          }
          return sums;
        },
        [](Sums& sum, const Sums& part) {
          for (size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
        });
    T* to = a.sums.Data<T>();
    for (int64_t j = 0; j < columns; ++j) to[j] += static_cast<T>(total[static_cast<size_t>(j)]);
  });
}

}  // namespace favor::kernels::cpu
