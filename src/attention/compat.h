// The formulas of two public implementations, to compare with them.
#ifndef FAVOR_ATTENTION_COMPAT_H_
#define FAVOR_ATTENTION_COMPAT_H_

#include "attention/call.h"
#include "core/tally.h"

namespace favor::attention {

// Throws kInvalidOption for what those implementations do not have.
void CheckCompat(const Call& call);

// Computes `out` [batch, heads, query_length, value_dim] in double, on the CPU.
void AttendCompatibly(const Call& call, const View& out, TallyEntry* tally, const Context& context);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_COMPAT_H_
