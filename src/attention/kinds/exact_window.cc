// Softmax attention in a sliding window: query i sees the keys j with |i − j| ≤ window (causal: and
// j ≤ i). O(L·window) time; decoding keeps the last `window` keys and values.
#include "attention/key_cache.h"
#include "attention/kind.h"
#include "attention/window.h"
#include "kernels/exact_attention.h"

namespace favor::attention {
namespace {

class ExactWindow : public Kind {
 public:
  std::string_view name() const override { return "exact-window"; }
  std::string_view summary() const override { return "softmax over near keys, O(L·window)"; }
  std::span<const AttentionOptionInfo> options() const override { return {&kWindowOption, 1}; }
  // The check of whole arrays would take a tenth of the time of a narrow window.
  bool ChecksWhileItWorks() const override { return true; }
  bool RunsOnGpu() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    Kind::Complete(options, context, call);
    SetWindow(call.kind_options[0], call);
  }
  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    kernels::AttentionArguments arguments = to.Arguments(call.problem);
    arguments.checks_inputs = true;
    kernels::ExactAttention(arguments, context);
  }
  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    kernels::ExactAttentionBackward(to.Gradients(call.problem), context);
  }

  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    return kernels::ExactFlops(shape.heads * shape.batch,
                               PairsInWindow(WindowOf(*this, options), length, options.causal),
                               shape.dim, shape.value_dim, backward);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<KeyCache>(shape, ScaleOf(options, shape.dim), kernels::ExactAttention,
                                      WindowOf(*this, options));
  }
};

}  // namespace

const Kind& ExactWindowKind() {
  static const ExactWindow kind;
  return kind;
}

}  // namespace favor::attention
