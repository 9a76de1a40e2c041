// Softmax of the keys within a window and features of those beyond it, under one normaliser: the
// weight of a pair is exp(s) or φ(q)·φ(k). O(L·window) time; decoding keeps the last `window` keys
// and values, and the prefix state of those before.
#include <algorithm>

#include "attention/key_cache.h"
#include "attention/kind.h"
#include "attention/linear_call.h"
#include "attention/state_data.h"
#include "attention/state_numbers.h"
#include "attention/window.h"
#include "core/error_text.h"
#include "kernels/attention_checks.h"
#include "kernels/combine_parts.h"
#include "kernels/exact_attention.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::attention {
namespace {

using kernels::AttentionProblem;
using kernels::PartTensors;

AttentionProblem FarOf(const AttentionProblem& problem) {
  AttentionProblem far = problem;
  far.beyond = true;
  return far;
}

class HybridCache : public Cache {
 public:
  HybridCache(const CacheShape& shape, int64_t window, AttentionState far)
      : shape_(shape),
        window_(window),
        keys_(shape, shape.dim),
        values_(shape, shape.value_dim),
        far_(std::move(far)) {}

  std::unique_ptr<Cache> Fork(int64_t times) const override {
    auto copy =
        std::make_unique<HybridCache>(shape_.Times(times), window_, RepeatedState(far_, times));
    copy->keys_ = keys_.Fork(times);
    copy->values_ = values_.Fork(times);
    return copy;
  }

  void Attend(const AttentionInputs& inputs, const ConstView&, View out, TallyEntry* tally,
              const Context& context) override {
    AttentionProblem near = shape_.Problem(inputs, internal::Inside(far_).scale);
    kernels::CountUnusable({.problem = near, .key_mean = {}, .tally = tally}, context);
    if (tally->unusable > 0) return;
    near.before = keys_.tokens();
    near.window = window_;
    keys_.Append(inputs.k, context);
    values_.Append(inputs.v, context);
    near.k = keys_.AsHeads();
    near.v = values_.AsHeads();
    near.key_length = keys_.tokens();
    PartTensors of_near(near), of_far(near);
    kernels::ExactAttention(
        {.problem = near, .out = out, .log_sum = {}, .tally = tally, .parts = of_near.views()},
        context);
    ReadFar(near, of_far, tally, context);
    kernels::CombineParts(
        {.call = {.problem = near, .out = out, .log_sum = {}, .tally = tally},
         .first = of_near.views(),
         .second = of_far.views(),
         .least_denominator = features::ConstantsOf(far_.plan()).least_denominator()},
        context);
    keys_.DropAllBut(window_);
    values_.DropAllBut(window_);
  }

  int64_t Bytes() const override { return keys_.Bytes() + values_.Bytes() + far_.Bytes(); }
  void Store(const std::string& prefix, io::Safetensors& file) const override {
    keys_.Store(prefix + "keys", file);
    values_.Store(prefix + "values", file);
    StoreState(internal::Inside(far_), prefix + "state.", file);
  }
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override {
    const int64_t kept = std::min(tokens, window_);
    keys_.Load(prefix + "keys", file, kept, who);
    values_.Load(prefix + "values", file, kept, who);
    LoadPrefix(file, prefix, tokens - kept, who, internal::Inside(far_));
  }

 private:
  // The state holds the keys that had left the window of the last token before. The first new
  // queries read it as it is; then, with each query, the oldest key that is kept leaves the window.
  void ReadFar(const AttentionProblem& near, PartTensors& parts, TallyEntry* tally,
               const Context& context) {
    State& state = internal::Inside(far_);
    const int64_t count = near.query_length, left = std::max<int64_t>(0, near.key_length - window_),
                  together = std::max<int64_t>(0, left - 1), first = count - together;
    const AttentionProblem reads = state.Problem(near.q.Range(2, 0, first), {}, {});
    kernels::LinearRead({.call = {.problem = reads,
                                  .out = {},
                                  .log_sum = {},
                                  .tally = tally,
                                  .parts = parts.Rows(0, first)},
                         .heads = state.Heads(),
                         .states = state.states.views()},
                        context);
    if (together > 0) {
      AttentionProblem steps =
          state.Problem(near.q.Range(2, first, together), near.k.Range(2, 0, together),
                        near.v.Range(2, 0, together));
      steps.causal = true;
      kernels::LinearAttention({.call = {.problem = steps,
                                         .out = {},
                                         .log_sum = {},
                                         .tally = tally,
                                         .parts = parts.Rows(first, together)},
                                .heads = state.Heads(),
                                .states = state.states.views()},
                               context);
    }
    if (left > 0) {
      const AttentionProblem last =
          state.Problem({}, near.k.Range(2, together, 1), near.v.Range(2, together, 1));
      kernels::LinearAppend({.call = {.problem = last, .out = {}, .log_sum = {}, .tally = tally},
                             .heads = state.Heads(),
                             .states = state.states.views()},
                            context);
    }
    state.end += left;
  }

  CacheShape shape_;
  int64_t window_;
  KeptTokens keys_, values_;
  AttentionState far_;
};

class Hybrid : public Kind {
 public:
  std::string_view name() const override { return "hybrid"; }
  std::string_view summary() const override {
    return "softmax of near keys, random features of the others, O(L·window)";
  }
  std::span<const AttentionOptionInfo> options() const override { return {&kWindowOption, 1}; }
  bool TakesPlan() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    if (options.compat != Compat::kNone || options.center_keys)
      Throw(ErrorCode::kInvalidOption, "attend",
            "given key centring or compat: they belong to linear attention, not to 'hybrid'");
    CompleteLinear(options, context, call);
    SetWindow(call.kind_options[0], call);
  }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    auto trace = std::make_unique<LinearTrace>(call, /*keeps_states=*/false, context);
    const AttentionProblem far = FarOf(call.problem);
    PartTensors of_near(call.problem), of_far(call.problem);
    kernels::AttentionArguments near = to.Arguments(call.problem), beyond = to.Arguments(far);
    near.parts = of_near.views();
    beyond.parts = of_far.views();
    kernels::ExactAttention(near, context);
    kernels::LinearAttention({.call = beyond, .heads = trace->Heads(far)}, context);
    kernels::CombineParts(
        {.call = to.Arguments(call.problem),
         .first = of_near.views(),
         .second = of_far.views(),
         .least_denominator = features::ConstantsOf(*call.plan).least_denominator()},
        context);
    if (to.trace != nullptr) to.trace->own = std::move(trace);
  }

  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    const auto& trace = dynamic_cast<const LinearTrace&>(*to.trace.own);
    const AttentionProblem far = FarOf(call.problem);
    kernels::AttentionGradients near = to.Gradients(call.problem);
    near.bounded = call.plan->map().nonnegative;
    kernels::ExactAttentionBackward(near, context);
    kernels::AttentionGradients beyond = to.Gradients(far);
    beyond.add = true;
    kernels::LinearAttentionBackward({.call = beyond, .heads = trace.Heads(far)}, context);
  }

  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    const auto rows = static_cast<double>(shape.batch * shape.heads * length),
               dims = static_cast<double>(shape.dim + shape.value_dim);
    return kernels::ExactFlops(shape.heads * shape.batch,
                               PairsInWindow(WindowOf(*this, options), length, options.causal),
                               shape.dim, shape.value_dim, backward) +
           rows * ProductColumns(shape, options) * dims * 4 * (backward ? 3 : 1);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<HybridCache>(
        shape, WindowOf(*this, options),
        AttentionState(*options.plan, {.batch = shape.batch,
                                       .value_dim = shape.value_dim,
                                       .scale = ScaleOf(options, shape.dim)}));
  }
};

}  // namespace

const Kind& HybridKind() {
  static const Hybrid kind;
  return kind;
}

}  // namespace favor::attention
