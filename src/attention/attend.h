// Checked calls that report nothing to the host: passes through models are made of these.
#ifndef FAVOR_ATTENTION_ATTEND_H_
#define FAVOR_ATTENTION_ATTEND_H_

#include "attention/kind.h"

namespace favor::attention {

// Rows that are out of range, and results that are not finite, are counted as unusable.
void Forward(const Call& call, const ForwardTo& to, const Context& context);

struct BackwardArrays {
  ConstView out, grad_out;      // rank 4, like the gradients
  View grad_q, grad_k, grad_v;  // the first two may be empty if the kind does not read q and k
  View grad_log_decay = {};     // [batch, heads, key_length]; none: not wanted
};
void Backward(const Call& call, const Trace& trace, const BackwardArrays& arrays, TallyEntry* tally,
              const Context& context);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_ATTEND_H_
