// The kinds of attention behind Attend, one file each. `out` is [batch, heads, query_length,
// value_dim], f32 or (with options.reference) f64.
#ifndef FAVOR_ATTENTION_KINDS_H_
#define FAVOR_ATTENTION_KINDS_H_

#include "attention/problem.h"
#include "favor/attention.h"

namespace favor::attention {

AttentionReport Exact(const Problem& problem, const AttentionOptions& options,
                      const Context& context, View out);
AttentionReport Linear(const Problem& problem, const AttentionOptions& options,
                       const Context& context, View out);
AttentionReport Compatible(const Problem& problem, const AttentionOptions& options,
                           const Context& context, View out);
AttentionReport Identity(const Problem& problem, const AttentionOptions& options,
                         const Context& context, View out);
AttentionReport Uniform(const Problem& problem, const AttentionOptions& options,
                        const Context& context, View out);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_KINDS_H_
