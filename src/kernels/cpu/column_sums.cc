#include "kernels/column_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/column_sums.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <vector>

#include "core/parallel.h"
#include "hwy/highway.h"
#include "kernels/cpu/typed.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// Adds rows [begin, end), four at a time. Loops without branches, which the compiler turns into
// code for this target.
template <class T>
HWY_INLINE void AddRows(const ConstView& rows, int64_t begin, int64_t end,
                        double* HWY_RESTRICT sums) {
  const int64_t columns = rows.size(1), step = rows.stride(0);
  const T* HWY_RESTRICT in = rows.Data<T>() + begin * step;
  const auto at = [&](int64_t row, int64_t j) { return static_cast<double>(in[row * step + j]); };
  int64_t row = begin;
  for (; row + 4 <= end; row += 4, in += 4 * step) {
    for (int64_t j = 0; j < columns; ++j) sums[j] += (at(0, j) + at(1, j)) + (at(2, j) + at(3, j));
  }
  for (; row < end; ++row, in += step) {
    for (int64_t j = 0; j < columns; ++j) sums[j] += at(0, j);
  }
}

void AddRowsOnTarget(const ConstView& rows, int64_t begin, int64_t end, double* sums) {
  WithType(rows.type(), [&]<class T>(T) { AddRows<T>(rows, begin, end, sums); });
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(AddRowsOnTarget);

void AddColumnSums(const ColumnSumsArguments& a, const Context& context) {
  constexpr int64_t kRows = 256;  // rows of one task; the sums of tasks are added in their order
  const int64_t columns = a.rows.size(1);
  using Sums = std::vector<double>;
  const Sums total = ParallelReduce(
      context, a.rows.size(0), kRows, Sums(static_cast<size_t>(columns), 0.0),
      [&](int64_t begin, int64_t end) {
        Sums sums(static_cast<size_t>(columns), 0.0);
        HWY_DYNAMIC_DISPATCH(AddRowsOnTarget)(a.rows, begin, end, sums.data());
        return sums;
      },
      [](Sums& sum, const Sums& part) {
        for (size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
      });
  WithType(a.sums.type(), [&]<class T>(T) {
    T* to = a.sums.Data<T>();
    for (int64_t j = 0; j < columns; ++j) to[j] += static_cast<T>(total[static_cast<size_t>(j)]);
  });
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
