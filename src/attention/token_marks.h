// What a call says of its keys one by one: which of them exist, and what each makes those before it
// forget.
#ifndef FAVOR_ATTENTION_TOKEN_MARKS_H_
#define FAVOR_ATTENTION_TOKEN_MARKS_H_

#include <cstdint>
#include <optional>

#include "core/host_copy.h"
#include "favor/context.h"
#include "favor/tensor.h"
#include "kernels/attention_problem.h"

namespace favor::attention {

// The key mask and the decays of new tokens: checked and expanded on the CPU, and sent to the GPU
// of the arrays if they are on one.
class TokenMarks {
 public:
  TokenMarks() = default;
  // Sets the mask and the decays of the problem, which point into this object or to the caller's
  // mask. Views without memory: none are given. Throws unless they fit.
  TokenMarks(const ConstView& mask, const ConstView& log_decay, const Context& context,
             kernels::AttentionProblem& problem);
  // The same for marks that a model made: a mask of [B, L] and decays of [B, H, L]. Those on a GPU,
  // f32, are used where they are, unchecked: nothing waits.
  static TokenMarks OfModel(const ConstView& mask, const ConstView& log_decay,
                            const Context& context, kernels::AttentionProblem& problem);

  // As in AttentionProblem, on the CPU; of a model on a GPU: empty.
  const ConstView& mask() const { return mask_; }
  const Tensor& log_decay() const { return log_decay_; }

 private:
  std::optional<HostCopy> given_mask_;
  ConstView mask_;
  Tensor own_mask_, log_decay_;  // on the CPU
  Tensor sent_mask_, sent_log_decay_;
};

// Decays of [L], [H, L] or [B, H, L], H of queries or of keys, as f64 [batch, heads, length] on the
// CPU; those of keys that the mask (as in AttentionProblem, on the CPU) hides are 0. Throws unless
// they fit.
Tensor ExpandLogDecay(const ConstView& given, const ConstView& mask,
                      const kernels::AttentionProblem& problem);
uint64_t HashOf(const ConstView& mask);         // differs between masks
uint64_t HashOfNumbers(const Tensor& numbers);  // of doubles; an empty tensor has one too

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_TOKEN_MARKS_H_
