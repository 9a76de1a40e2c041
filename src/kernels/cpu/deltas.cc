#include "kernels/attention_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/deltas.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>

#include "core/element.h"
#include "hwy/highway.h"
#include "kernels/cpu/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace favor::kernels::cpu::HWY_NAMESPACE {

// A loop without branches, which the compiler turns into code for this target.
double DotOnTarget(const float* x, const float* y, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * y[i + lane];
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * y[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace favor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace favor::kernels::cpu {

HWY_EXPORT(DotOnTarget);

namespace {

double Dot(const ConstView& a, const ConstView& b, int64_t row) {
  const int64_t columns = a.size(1);
  if (a.type() == DataType::kF32 && b.type() == DataType::kF32 && a.stride(1) == 1 &&
      b.stride(1) == 1) {
    const float* x = static_cast<const float*>(a.data()) + row * a.stride(0);
    const float* y = static_cast<const float*>(b.data()) + row * b.stride(0);
    return HWY_DYNAMIC_DISPATCH(DotOnTarget)(x, y, columns);
  }
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += ElementAt(a, row, i) * ElementAt(b, row, i);
  return sum;
}

}  // namespace

void FindDeltas(const DeltaArguments& a, const Context& context) {
  constexpr int64_t kRows = 4096;
  const AttentionProblem& problem = a.problem;
  const int64_t length = problem.query_length, tasks = (length + kRows - 1) / kRows;
  SumPieces(context, problem.Groups() * tasks, [&](int64_t task) {
    const int64_t group = task / tasks, begin = task % tasks * kRows;
    const ConstView out = problem.OfQueries(a.out, group),
                    grad_out = problem.OfQueries(a.grad_out, group);
    double* delta = a.delta.At(group).Data<double>();
    RowCounts counts;
    for (int64_t row = begin; row < std::min(length, begin + kRows); ++row) {
      delta[row] = problem.normalize ? -Dot(grad_out, out, row) : 0;
      counts.unusable += std::isfinite(delta[row]) ? 0 : 1;
    }
    return counts;
  }).AddTo(*a.tally);
}

}  // namespace favor::kernels::cpu
#endif  // HWY_ONCE
