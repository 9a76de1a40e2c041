// What every attention call does around its kernels: unusable rows are counted before anything
// changes, and gradients begin with δ.
#ifndef FAVOR_KERNELS_ATTENTION_CHECKS_H_
#define FAVOR_KERNELS_ATTENTION_CHECKS_H_

#include <cmath>

#include "kernels/attention_problem.h"
#include "kernels/backend.h"

namespace favor::kernels {

// Counts as unusable the rows of q, k and v (those that the problem has) that hold NaN, infinity or
// numbers too large for the arithmetic; keys and values that do not exist may hold anything.
struct RangeArguments {
  const AttentionProblem& problem;
  ConstView key_mean;  // f64 [batch, heads, dim]: subtracted from keys; empty: keys as they are
  TallyEntry* tally;
};

// The largest |x| for which |scale|·dim·x² is in range.
inline double LargestElement(const AttentionProblem& problem) {
  return std::sqrt(kLargestNorm / (std::fabs(problem.scale) * static_cast<double>(problem.dim)));
}

// delta = −dO·O of every row, 0 if not normalised; rows with a delta that is not finite are
// unusable.
struct DeltaArguments {
  const AttentionProblem& problem;
  ConstView out, grad_out;  // [batch, heads, query_length, value_dim]
  View delta;               // f64 (on a GPU f32) [batch · heads, query_length]
  TallyEntry* tally;
};

// Counts rows of a result that are not finite, for kernels that do not check their own results.
struct FiniteArguments {
  ConstView array;  // [.., columns]
  TallyEntry* tally;
};

namespace cpu {  // arrays of any type
void CountNotFinite(const FiniteArguments& a, const Context& context);
void CountUnusable(const RangeArguments& a, const Context& context);
void FindDeltas(const DeltaArguments& a, const Context& context);
}  // namespace cpu
namespace cuda {
void CountNotFinite(const FiniteArguments& a, const Context& context);
void CountUnusable(const RangeArguments& a, const Context& context);
void FindDeltas(const DeltaArguments& a, const Context& context);
}  // namespace cuda

inline void CountUnusable(const RangeArguments& a, const Context& context) {
  const AttentionProblem& problem = a.problem;
  const ConstView& any = !problem.q.empty()   ? problem.q
                         : !problem.k.empty() ? problem.k
                                              : problem.v;
  RunOn<RangeArguments>(any.device(), /*reference=*/false,
                        {.name = "attention",
                         .reference = nullptr,
                         .cpu = cpu::CountUnusable,
                         .cuda = cuda::CountUnusable},
                        a, context);
}
inline void CountNotFinite(const FiniteArguments& a, const Context& context) {
  RunOn<FiniteArguments>(a.array.device(), /*reference=*/false,
                         {.name = "attention",
                          .reference = nullptr,
                          .cpu = cpu::CountNotFinite,
                          .cuda = cuda::CountNotFinite},
                         a, context);
}
inline void FindDeltas(const DeltaArguments& a, const Context& context) {
  RunOn<DeltaArguments>(
      a.delta.device(), /*reference=*/false,
      {.name = "attention", .reference = nullptr, .cpu = cpu::FindDeltas, .cuda = cuda::FindDeltas},
      a, context);
}

}  // namespace favor::kernels

#endif  // FAVOR_KERNELS_ATTENTION_CHECKS_H_
