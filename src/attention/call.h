// One attention call, checked once: what to compute, on which arrays, and by which kind. Everything
// below relies on it and never looks at the options again.
#ifndef FAVOR_ATTENTION_CALL_H_
#define FAVOR_ATTENTION_CALL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "favor/attention.h"
#include "kernels/attention_problem.h"

namespace favor::attention {

class Kind;  // kind.h

struct Call {
  const Kind& kind;
  kernels::AttentionProblem problem{};
  Shape output_shape;  // with the caller's rank
  bool reference = false;
  // The next fields are for kinds with random features.
  std::optional<FeaturePlan> plan;  // given, or drawn
  bool owns_plan = false;           // drawn for this call
  Compat compat = Compat::kNone;
  bool center_keys = false;
  Tensor key_mean;  // frozen, f64 [1, heads, dim]; empty: the mean of the call's own keys
  // Options that only the kind has, in the order in which it declares them.
  std::vector<int64_t> kind_options;

  Tensor own_mask;   // what problem.mask points to, if it is not the caller's memory
  Tensor log_decay;  // what problem.log_decay points to
};

// Checks shapes and options: throws kInvalidData or kInvalidOption. The numbers in the arrays are
// checked by a kernel (kernels/attention_checks.h).
Call CheckCall(const AttentionInputs& inputs, const AttentionOptions& options,
               const Context& context);

// Explains why a kernel refused numbers: throws kInvalidData naming the array and the row of the
// first NaN or infinity, or the numbers that are too large. Returns if nothing is found.
void ExplainUnusable(const kernels::AttentionProblem& problem);
// The same for one array of values or gradients.
void ExplainValues(const ConstView& values, const ConstView& mask, std::string_view name);

// A mask of [L], [B, L] or [B, H_kv, L] as f32 [batch, kv_heads, length], without a copy if it is
// f32 (else in `own`). Throws unless it fits and holds 0 and 1 only.
ConstView ExpandMask(const ConstView& mask, int64_t batch, int64_t kv_heads, int64_t length,
                     Tensor& own);
// Decays of [L], [H, L] or [B, H, L], H of queries or of keys, as f64 [batch, heads, length].
// Throws unless they fit.
Tensor ExpandLogDecay(const ConstView& given, const kernels::AttentionProblem& problem);
uint64_t HashOf(const ConstView& mask);         // differs between masks
uint64_t HashOfNumbers(const Tensor& numbers);  // of doubles; an empty tensor has one too

// A mean of [d], or of one row for each of a divisor of `heads`, as f64 [1, heads, d]; throws
// unless it fits.
Tensor FrozenMean(const ConstView& mean, int64_t heads, int64_t dim);

// [1, heads, d] seen as [batch, heads, d].
ConstView ForEveryBatch(const ConstView& one, int64_t batch);

// Throws unless the map's kernel is unchanged (after the division) when a vector is subtracted from
// all keys.
void CheckCentring(const FeaturePlan& plan);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_CALL_H_
