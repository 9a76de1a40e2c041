// The kinds of attention behind Attend and AttendBackward: a table, and one file for each.
#ifndef FAVOR_ATTENTION_KINDS_H_
#define FAVOR_ATTENTION_KINDS_H_

#include <string_view>
#include <vector>

#include "attention/problem.h"
#include "favor/attention.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::attention {

// Of a forward call. `out` is [batch, heads, query_length, value_dim], f32 or (with
// options.reference) f64; `record` is filled where it is not null.
struct ForwardCall {
  const Problem& problem;
  const AttentionOptions& options;
  const Context& context;
  View out;
  AttentionRecord::Impl* record = nullptr;

  // Rows of one group.
  kernels::OutputRows Rows(int64_t group) const;
};

kernels::RowCounts Exact(const ForwardCall& call);
kernels::RowCounts Linear(const ForwardCall& call);
kernels::RowCounts Compatible(const ForwardCall& call);
kernels::RowCounts Identity(const ForwardCall& call);
kernels::RowCounts Uniform(const ForwardCall& call);

// Of a backward call; arrays of rank 4.
struct BackwardCall {
  const Problem& problem;
  const AttentionOptions& options;
  const Context& context;
  const AttentionRecord::Impl& record;
  ConstView out, grad_out;
  View grad_q, grad_k, grad_v;
  std::vector<double> delta{};  // [batch, heads, query_length]: −dO·O, 0 when not normalised

  // Query heads that share keys take turns: turn t of [batch, kv_heads] has one group each, and
  // later turns add to the gradients of keys and values.
  int64_t Turns() const { return problem.heads / problem.kv_heads; }
  int64_t GroupsOfTurn() const { return problem.batch * problem.kv_heads; }
  int64_t Group(int64_t turn, int64_t index) const { return index * Turns() + turn; }
  // Rows of one group of a turn.
  kernels::GradientRows Rows(int64_t turn, int64_t index) const;
};

kernels::RowCounts ExactBackward(const BackwardCall& call);
kernels::RowCounts LinearBackward(const BackwardCall& call);
kernels::RowCounts IdentityBackward(const BackwardCall& call);
kernels::RowCounts UniformBackward(const BackwardCall& call);

// What a token needs of those before it.
enum class ContextMemory { kNothing, kPrefixState, kKeysAndValues, kSumOfValues };

struct AttentionKind {
  std::string_view name;
  kernels::RowCounts (*forward)(const ForwardCall& call);
  kernels::RowCounts (*backward)(const BackwardCall& call);
  ContextMemory memory = ContextMemory::kNothing;
  // Computes with random features: a plan, key centring and compat say something to it.
  bool takes_plan = false;
  // Its fast kernels find arguments out of range while they work. For other kinds, and for the
  // reference, they are looked for before.
  bool checks_ranges = false;
  // Its kernels count result rows that are not finite. For other kinds results are looked at after.
  bool checks_results = false;
};

// Throws kInvalidOption for a name that is none of AttentionNames().
const AttentionKind& FindKind(std::string_view name);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_KINDS_H_
