#include "kernels/attention_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.h"
#include "core/parallel.h"
#include "kernels/cpu/attention_checks.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd/dot.h"

namespace favor::kernels::cpu {
namespace {

constexpr int64_t kTaskRows = 1024;
constexpr int64_t kFewElements = 1 << 15;

// Counts the existing rows of an array [batch, heads, length, columns] for which is_unusable(row,
// batch, head) holds. Blocks of rows without an element beyond `limit` are skipped.
template <class IsUnusable>
RowCounts CountRows(const ConstView& array, const ConstView& mask, double limit,
                    const Context& context, const IsUnusable& is_unusable) {
  if (array.empty()) return {};
  // A few rows, as in decoding, are checked as a whole: cutting them into pieces would cost more
  // than the check.
  const bool few = array.shape().Elements() <= kFewElements;
  if (few && LargestAbsolute(array) <= limit) return {};
  const int64_t heads = array.size(1), length = array.size(2);
  const int64_t tasks = (length + kTaskRows - 1) / kTaskRows;
  return SumPieces(context, array.size(0) * tasks, [&](int64_t piece) {
    const int64_t batch = piece / tasks, begin = piece % tasks * kTaskRows,
                  count = std::min(kTaskRows, length - begin);
    // All heads together: in models their elements are neighbours.
    const ConstView all = array.At(batch).Range(1, begin, count);
    RowCounts counts;
    if (LargestAbsolute(all) <= limit) return counts;
    for (int64_t head = 0; head < heads; ++head) {
      const float* exists = mask.empty() ? nullptr : mask.At(batch).At(head).Data<float>() + begin;
      for (int64_t row = 0; row < count; ++row) {
        if (exists != nullptr && exists[row] == 0) continue;
        counts.unusable += is_unusable(all.At(head).At(row), batch, head) ? 1 : 0;
      }
    }
    return counts;
  });
}

RowCounts CountBeyond(const ConstView& array, const ConstView& mask, double limit,
                      const Context& context) {
  return CountRows(array, mask, limit, context, [limit](const ConstView& row, int64_t, int64_t) {
    return !(LargestAbsolute(row) <= limit);
  });
}

// Counts the keys that are not in range once the mean of a head that shares them is subtracted.
RowCounts CountCentred(const RangeArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  if (a.key_mean.empty()) return {};
  const double limit = LargestElement(problem) - LargestAbsolute(a.key_mean);
  const int64_t shared = problem.heads / problem.kv_heads;
  return CountRows(problem.k, problem.mask, limit, context,
                   [&](const ConstView& key, int64_t batch, int64_t kv_head) {
                     for (int64_t head = kv_head * shared; head < (kv_head + 1) * shared; ++head) {
                       const double* mean = a.key_mean.At(batch).At(head).Data<double>();
                       double square = 0;
                       for (int64_t i = 0; i < problem.dim; ++i) {
                         const double x =
                             LoadElement(key.data(), key.type(), i * key.stride(0)) - mean[i];
                         square += x * x;
                       }
                       if (!(problem.scale * square <= kLargestNorm)) return true;
                     }
                     return false;
                   });
}

double Dot(const ConstView& a, const ConstView& b, int64_t row) {
  const int64_t columns = a.size(1);
  if (a.type() == DataType::kF32 && b.type() == DataType::kF32 && a.stride(1) == 1 &&
      b.stride(1) == 1) {
    return DotOfFloats(static_cast<const float*>(a.data()) + row * a.stride(0),
                       static_cast<const float*>(b.data()) + row * b.stride(0), columns);
  }
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += ElementAt(a, row, i) * ElementAt(b, row, i);
  return sum;
}

}  // namespace

void CountUnusable(const RangeArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  const double most = LargestElement(problem);
  RowCounts counts = CountBeyond(problem.q, {}, most, context);
  counts += CountBeyond(problem.k, problem.mask, most, context);
  counts += CountBeyond(problem.v, problem.mask, kLargestValue, context);
  if (counts.unusable == 0) counts += CountCentred(a, context);
  counts.AddTo(*a.tally);
}

RowCounts CountUnusableRows(const AttentionProblem& problem, int64_t group, RowRange queries,
                            RowRange keys) {
  RowCounts counts;
  const auto count = [&](const ConstView& rows, const float* exists, double limit) {
    if (LargestAbsolute(rows) <= limit) return;
    for (int64_t row = 0; row < rows.size(0); ++row) {
      if (exists != nullptr && exists[row] == 0) continue;
      counts.unusable += LargestAbsolute(rows.At(row)) <= limit ? 0 : 1;
    }
  };
  const double most = LargestElement(problem);
  count(problem.OfQueries(problem.q, group).Range(0, queries.begin, queries.count()), nullptr,
        most);
  const bool shared = problem.Head(group) % (problem.heads / problem.kv_heads) != 0;
  if (shared) return counts;  // the first head that has these keys counts them
  const float* mask = problem.Mask(group);
  const float* exists = mask == nullptr ? nullptr : mask + keys.begin;
  count(problem.OfKeys(problem.k, group).Range(0, keys.begin, keys.count()), exists, most);
  count(problem.OfKeys(problem.v, group).Range(0, keys.begin, keys.count()), exists, kLargestValue);
  return counts;
}

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

void CountNotFinite(const FiniteArguments& a, const Context& context) {
  CountBeyond(a.array.AsRank4(), {}, std::numeric_limits<double>::max(), context).AddTo(*a.tally);
}

}  // namespace favor::kernels::cpu
