// Linear attention: random features whose kernel stands for the softmax, O(L) time. A token needs
// the prefix state of those before it, of fixed size.
#include <algorithm>
#include <cmath>

#include "attention/compat.h"
#include "attention/kind.h"
#include "attention/state_data.h"
#include "attention/state_numbers.h"
#include "core/error_text.h"
#include "features/drawn_features.h"
#include "kernels/key_statistics.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::attention {
namespace {

using features::ConstantsOf;
using kernels::AttentionProblem;

// What a call computes once for each batch entry and head, and what its gradients need of it.
class LinearTrace : public KindTrace {
 public:
  LinearTrace(const Call& call, bool owns_plan, bool keeps_states, const Context& context)
      : plan_(*call.plan), owns_plan_(owns_plan) {
    const AttentionProblem& problem = call.problem;
    if (!call.key_mean.empty()) {
      key_mean_ = call.key_mean.Clone();
    } else if (call.center_keys) {
      key_mean_ = Tensor({problem.batch, problem.heads, problem.dim}, DataType::kF64);
      kernels::FindKeyMeans({.problem = problem, .mean = key_mean_}, context);
    }
    if (UsesDataForA(plan_)) {
      oprf_a_ = Tensor({problem.batch, problem.heads}, DataType::kF64);
      for (int64_t group = 0; group < problem.Groups(); ++group)
        oprf_a_.Data<double>()[group] = plan_.OprfA(problem.Head(group));
      kernels::FindOprfA({.problem = problem, .key_mean = Mean(problem), .oprf_a = oprf_a_},
                         context);
    }
    if (keeps_states)
      states_ = kernels::StateTensors(problem.Groups(), plan_.width(), problem.value_dim);
  }

  static bool UsesDataForA(const FeaturePlan& plan) {
    return ConstantsOf(plan).map().traits->info.takes_a && plan.options().oprf_a.empty();
  }

  kernels::LinearHeads Heads(const AttentionProblem& problem) const {
    return {.features = ConstantsOf(plan_), .oprf_a = oprf_a_, .key_mean = Mean(problem)};
  }
  kernels::PrefixStates states() const { return states_.views(); }

  int64_t Bytes() const override {
    return key_mean_.Bytes() + oprf_a_.Bytes() + states_.Bytes() +
           (owns_plan_ ? ConstantsOf(plan_).Bytes() : 0);
  }

  std::string_view Difference(const AttentionOptions& options,
                              const Context& context) const override {
    if (options.plan)
      return ConstantsOf(*options.plan).Equals(ConstantsOf(plan_)) ? "" : "the plan";
    if (!(options.features == plan_.options())) return "an option of features";
    return internal::Inside(plan_).seed == context.seed() ? "" : "the seed of ω";
  }

 private:
  // A frozen mean is one for all batches.
  ConstView Mean(const AttentionProblem& problem) const {
    const ConstView mean = key_mean_;
    return !mean.empty() && mean.size(0) != problem.batch ? ForEveryBatch(mean, problem.batch)
                                                          : mean;
  }

  FeaturePlan plan_;
  bool owns_plan_;  // drawn by the call
  Tensor key_mean_, oprf_a_;
  kernels::StateTensors states_;
};

class LinearCache : public Cache {
 public:
  explicit LinearCache(AttentionState state) : state_(std::move(state)) {}

  std::unique_ptr<Cache> Clone() const override {
    return std::make_unique<LinearCache>(state_.Clone());
  }
  void Attend(const AttentionInputs& inputs, const ConstView& log_decay, View out,
              TallyEntry* tally, const Context& context) override {
    State& state = internal::Inside(state_);
    Tensor decays;
    if (state.forgets)
      decays = ExpandLogDecay(log_decay, state.Problem(inputs.q, inputs.k, inputs.v));
    state.Continue(inputs, {}, decays.view(), out, tally, context);
    state.end += inputs.k.size(2);
  }
  int64_t Bytes() const override { return state_.Bytes(); }
  void Store(const std::string& prefix, io::Safetensors& file) const override {
    StoreState(internal::Inside(state_), prefix + "state.", file);
  }
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override {
    State& state = internal::Inside(state_);
    LoadState(file, prefix + "state.", who, state);
    const double* counts = state.states.views().tokens.Data<double>();
    for (int64_t group = 0; group < state.Groups(); ++group) {
      if (counts[group] != static_cast<double>(tokens))
        Throw(ErrorCode::kInvalidData, Printable(who), "'{}state' has read {} tokens, expected {}",
              prefix, counts[group], tokens);
    }
    state.end = state.begin + tokens;
  }

 private:
  AttentionState state_;
};

class Linear : public Kind {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view summary() const override { return "random features, O(L)"; }
  bool TakesPlan() const override { return true; }
  bool ChecksWhileItWorks() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    const AttentionProblem& problem = call.problem;
    if (options.plan &&
        (options.plan->heads() != problem.heads || options.plan->dim() != problem.dim)) {
      Throw(ErrorCode::kInvalidData, "attend",
            "given a plan of {} heads of dim {} for {} heads of dim {}", options.plan->heads(),
            options.plan->dim(), problem.heads, problem.dim);
    }
    call.plan = options.plan ? *options.plan
                             : FeaturePlan::Draw(options.features, problem.heads, problem.dim,
                                                 context.seed());
    call.owns_plan = !options.plan;
    if (!(problem.scale > 0)) {
      Throw(ErrorCode::kInvalidOption, "scale",
            "given {}, expected a number above 0 for linear attention", problem.scale);
    }
    if (options.compat != Compat::kNone) return CheckCompat(call);
    const bool frozen_mean = options.key_mean.data() != nullptr;
    if (frozen_mean && !options.center_keys) {
      Throw(ErrorCode::kInvalidOption, "key mean", "given a mean, but keys are not to be centred");
    }
    if (options.center_keys) CheckCentring(*call.plan);
    if (problem.causal && options.center_keys && !frozen_mean) {
      Throw(ErrorCode::kInvalidOption, "key centring",
            "the mean of a causal call's own keys would leak the future: give a frozen mean "
            "(--center-keys MEAN.npy)");
    }
    if (frozen_mean) call.key_mean = FrozenMean(options.key_mean, problem.heads, problem.dim);
    if (problem.causal && LinearTrace::UsesDataForA(*call.plan)) {
      Throw(
          ErrorCode::kInvalidOption, "oprf",
          "an A from a causal call's own data would leak the future: give a frozen one (--oprf-a)");
    }
  }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    if (call.compat != Compat::kNone) return AttendCompatibly(call, to.out, to.tally, context);
    const bool keeps_states = to.trace != nullptr && !call.problem.causal;
    auto trace = std::make_unique<const LinearTrace>(call, call.owns_plan, keeps_states, context);
    kernels::LinearAttention({.call = to.Arguments(call.problem),
                              .heads = trace->Heads(call.problem),
                              .states = trace->states()},
                             context);
    if (to.trace != nullptr) to.trace->own = std::move(trace);
  }

  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    const auto& trace = dynamic_cast<const LinearTrace&>(*to.trace.own);
    kernels::LinearAttentionBackward({.call = to.Gradients(call.problem),
                                      .heads = trace.Heads(call.problem),
                                      .states = trace.states(),
                                      .own_mean = call.center_keys && call.key_mean.empty()},
                                     context);
  }

  int64_t TraceBytes(const CacheShape& shape, const AttentionOptions& options) const override {
    if (options.causal) return 0;
    const int64_t width = features::WidthOf(options.features, shape.dim);
    return shape.batch * shape.heads * kernels::PrefixState::Bytes(width, shape.value_dim);
  }

  // Four products of [length, m] forward: of ω and of values with features of keys and of queries;
  // twelve with gradients.
  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    const kernels::MapEntry* map = kernels::FindMap(options.features.map);
    const int64_t features = options.plan ? options.plan->features()
                             : map != nullptr && map->IsRowMap()
                                 ? features::WidthOf(options.features, shape.dim)
                                 : options.features.features;
    const auto rows = static_cast<double>(shape.batch * shape.heads * length),
               m = static_cast<double>(features),
               dims = static_cast<double>(shape.dim + shape.value_dim);
    return rows * m * dims * 4 * (backward ? 3 : 1);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<LinearCache>(
        AttentionState(*options.plan, {.batch = shape.batch,
                                       .value_dim = shape.value_dim,
                                       .scale = options.scale,
                                       .forgets = shape.forgets}));
  }
};

}  // namespace

const Kind& LinearKind() {
  static const Linear kind;
  return kind;
}

}  // namespace favor::attention
