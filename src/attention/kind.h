// A kind of attention defines everything that is specific to it: forward, backward, what its
// forward call leaves for the backward call, what it keeps of a prefix, and its options. Each file
// of kinds/ defines one `const Kind& NameKind()`; the list follows from the files.
#ifndef FAVOR_ATTENTION_KIND_H_
#define FAVOR_ATTENTION_KIND_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "attention/cache.h"
#include "attention/call.h"
#include "attention/trace.h"
#include "favor/attention.h"

namespace favor::attention {

// Where a forward call writes: `out` is [batch, heads, query_length, value_dim], f32, f64 (for the
// reference) or (on a GPU) of the type of the inputs; `trace` is filled unless it is null. Rows are
// counted in the tally.
struct ForwardTo {
  View out;
  Trace* trace = nullptr;
  TallyEntry* tally;

  kernels::AttentionArguments Arguments(const kernels::AttentionProblem& problem) const {
    return {.problem = problem,
            .out = out,
            .log_sum = trace == nullptr ? View() : trace->log_sum.view(),
            .tally = tally};
  }
};

// A backward call; arrays of rank 4.
struct BackwardTo {
  const Trace& trace;
  ConstView out, grad_out;
  ConstView delta;  // f64 (f32 on a GPU) [batch · heads, query_length]: −dO·O, 0 if not normalised
  View grad_q, grad_k, grad_v;
  View grad_log_decay;  // [batch, heads, key_length]; none: not wanted
  TallyEntry* tally;

  kernels::AttentionGradients Gradients(const kernels::AttentionProblem& problem) const {
    return {.problem = problem,
            .out = out,
            .grad_out = grad_out,
            .log_sum = trace.log_sum,
            .delta = delta,
            .grad_q = grad_q,
            .grad_k = grad_k,
            .grad_v = grad_v,
            .grad_log_decay = grad_log_decay,
            .tally = tally};
  }
};

class Kind {
 public:
  virtual ~Kind() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // for help
  virtual std::span<const AttentionOptionInfo> options() const { return {}; }
  // Whether it computes with random features: only then do a plan, key centring and compat apply.
  virtual bool TakesPlan() const { return false; }
  // Whether its heads can forget (AttentionOptions::log_decay) in causal calls.
  virtual bool TakesDecay() const { return false; }
  // Whether its output depends on queries and keys; if not, layers do not compute them.
  virtual bool ReadsQueriesAndKeys() const { return true; }
  // Whether its fast kernels on the CPU detect arguments out of range, and results that are not
  // finite, while they run. For other kinds, and for the reference, arrays are checked before and
  // after.
  virtual bool ChecksWhileItWorks() const { return false; }

  // Whether its operations have kernels for a GPU. They look at their results, and at arguments too
  // if they check inputs; for other kinds arguments are checked before.
  virtual bool RunsOnGpu() const { return false; }
  virtual bool ChecksInputsOnGpu() const { return false; }

  // Checks options, and completes the call with what the kind needs. Kinds without random features
  // refuse options that only apply to random features.
  virtual void Complete(const AttentionOptions& options, const Context& context, Call& call) const;

  virtual void Forward(const Call& call, const ForwardTo& to, const Context& context) const = 0;
  virtual void Backward(const Call& call, const BackwardTo& to, const Context& context) const = 0;

  // Bytes of the trace of a call of this shape and length, besides log_sum.
  virtual int64_t TraceBytes(const CacheShape&, int64_t /*length*/, const AttentionOptions&) const {
    return 0;
  }

  // Floating-point operations of the products of one forward call, or of forward and backward
  // together, of `length` queries and keys: the least that the formulas take, whatever a backend
  // computes besides.
  virtual double Flops(const CacheShape&, int64_t /*length*/, const AttentionOptions&,
                       bool /*backward*/) const {
    return 0;
  }

  // Exponentials of one such call: of features or of scores, which gradients compute again.
  virtual double Exponentials(const CacheShape&, int64_t /*length*/, const AttentionOptions&,
                              bool /*backward*/) const {
    return 0;
  }

  // What it keeps of a prefix in a causal model; empty at first. Options are those of causal calls,
  // with a plan if the kind takes one.
  virtual std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                           const AttentionOptions& options) const = 0;
};

// The scale of these options, or 1/√dim if they give none.
double ScaleOf(const AttentionOptions& options, int64_t dim);

// Values of all options of a kind, in its order. Throws kInvalidOption for those that it does not
// have and for values out of range.
std::vector<int64_t> KindOptionValues(const Kind& kind, const KindOptions& options);

// Throws kInvalidOption for a name that is not among AttentionNames().
const Kind& FindKind(std::string_view name);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_KIND_H_
