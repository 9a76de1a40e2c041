// The inside of an AttentionTrace: what a forward call leaves for its gradients.
#ifndef FAVOR_ATTENTION_TRACE_H_
#define FAVOR_ATTENTION_TRACE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "attention/call.h"
#include "favor/attention.h"

namespace favor::attention {

// What a kind keeps besides log_sum. A forward call that is given that of an earlier call may take
// its memory, and leaves one of its own.
class KindTrace {
 public:
  virtual ~KindTrace() = default;
  virtual int64_t Bytes() const = 0;
  // Names what differs between the traced call and this one, of what only the kind knows; empty:
  // nothing.
  virtual std::string_view Difference(const AttentionOptions& options,
                                      const Context& context) const = 0;
};

struct Trace {
  Trace() = default;
  // Takes over the memory of an earlier trace: of log_sum if it fits, and what the kind kept, which
  // the kind replaces (KindTrace).
  Trace(const Call& call, Trace earlier);
  explicit Trace(const Call& call) : Trace(call, Trace()) {}

  // The call that was traced; a backward call must be of the same kind.
  const Kind* kind = nullptr;
  Shape q, k, v;  // rank 4
  bool causal = false, normalize = true;
  double scale = 0;
  bool center_keys = false, frozen_mean = false;
  std::vector<int64_t> kind_options;
  uint64_t mask_hash = 0, decay_hash = 0;

  // f64 (f32 on a GPU) [batch · heads, query length]; see kernels::AttentionArguments.
  Tensor log_sum;
  std::unique_ptr<KindTrace> own;

  int64_t Bytes() const { return log_sum.Bytes() + (own == nullptr ? 0 : own->Bytes()); }
};

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_TRACE_H_
