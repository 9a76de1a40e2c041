// Linear attention in a sliding window: query i sees the keys j with |i − j| ≤ window (causal: and
// j ≤ i), through features. O(L) time for any window; decoding keeps the last `window` keys and
// values.
#include <algorithm>

#include "attention/key_cache.h"
#include "attention/kind.h"
#include "attention/linear_call.h"
#include "attention/window.h"
#include "core/error_text.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::attention {
namespace {

class Window : public Kind {
 public:
  std::string_view name() const override { return "window"; }
  std::string_view summary() const override { return "random features of near keys, O(L)"; }
  std::span<const AttentionOptionInfo> options() const override { return {&kWindowOption, 1}; }
  bool TakesPlan() const override { return true; }
  bool ChecksWhileItWorks() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    if (options.compat != Compat::kNone)
      Throw(ErrorCode::kInvalidOption, "compat",
            "given to window attention, which public implementations do not have");
    CompleteLinear(options, context, call);
    SetWindow(call.kind_options[0], call);
  }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    auto trace = std::make_unique<LinearTrace>(call, /*keeps_states=*/false, context);
    kernels::LinearAttention(
        {.call = to.Arguments(call.problem), .heads = trace->Heads(call.problem)}, context);
    if (to.trace != nullptr) to.trace->own = std::move(trace);
  }

  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    const auto& trace = dynamic_cast<const LinearTrace&>(*to.trace.own);
    kernels::LinearAttentionBackward({.call = to.Gradients(call.problem),
                                      .heads = trace.Heads(call.problem),
                                      .own_mean = call.center_keys && call.key_mean == nullptr},
                                     context);
  }

  // Features of queries and keys, and then the cheaper of states and of pairs.
  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    const auto groups = static_cast<double>(shape.batch * shape.heads),
               rows = groups * static_cast<double>(length), m = ProductColumns(shape, options),
               dim = static_cast<double>(shape.dim),
               value_dim = static_cast<double>(shape.value_dim),
               pairs = groups * PairsInWindow(WindowOf(*this, options), length, options.causal);
    const double features = 4 * rows * m * dim, states = 4 * rows * m * value_dim,
                 band = 2 * pairs * (m + value_dim);
    return (features + std::min(states, band)) * (backward ? 3 : 1);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    const auto attend = [plan = *options.plan](const kernels::AttentionArguments& call,
                                               const Context& context) {
      kernels::LinearAttention(
          {.call = call,
           .heads = {.features = features::ConstantsOf(plan), .oprf_a = {}, .key_mean = {}}},
          context);
    };
    return std::make_unique<KeyCache>(shape, ScaleOf(options, shape.dim), attend,
                                      WindowOf(*this, options));
  }
};

}  // namespace

const Kind& WindowKind() {
  static const Window kind;
  return kind;
}

}  // namespace favor::attention
