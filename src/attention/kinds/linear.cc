// Linear attention: random features whose kernel stands for the softmax, O(L) time. A token needs
// the prefix state of those before it, of fixed size.
#include "attention/compat.h"
#include "attention/kind.h"
#include "attention/linear_call.h"
#include "attention/state_data.h"
#include "attention/state_numbers.h"
#include "attention/token_marks.h"
#include "features/drawn_features.h"
#include "kernels/linear_attention.h"
#include "kernels/linear_attention_backward.h"

namespace favor::attention {
namespace {

class LinearCache : public Cache {
 public:
  explicit LinearCache(AttentionState state) : state_(std::move(state)) {}

  std::unique_ptr<Cache> Fork(int64_t times) const override {
    return std::make_unique<LinearCache>(RepeatedState(state_, times));
  }
  void Attend(const AttentionInputs& inputs, const ConstView& log_decay, View out,
              TallyEntry* tally, const Context& context) override {
    State& state = internal::Inside(state_);
    kernels::AttentionProblem problem = state.Problem(inputs.q, inputs.k, inputs.v);
    const TokenMarks marks = TokenMarks::OfModel(/*mask=*/{}, log_decay, context, problem);
    state.Continue(inputs, {}, problem.log_decay, out, tally, context);
    Advance(inputs.k.size(2));
  }
  bool StaysInPlace() const override { return true; }
  void Advance(int64_t tokens) override { internal::Inside(state_).end += tokens; }
  int64_t Bytes() const override { return state_.Bytes(); }
  void Store(const std::string& prefix, io::Safetensors& file) const override {
    StoreState(internal::Inside(state_), prefix + "state.", file);
  }
  void Load(const std::string& prefix, const io::Safetensors& file, int64_t tokens,
            const std::string& who) override {
    AttentionState loaded = state_.To(Device{});
    LoadPrefix(file, prefix, tokens, who, internal::Inside(loaded));
    state_ = loaded.To(state_.device());
  }

 private:
  AttentionState state_;
};

// Bytes of the states that a causal call leaves for its gradients.
int64_t KeptBytes(const CacheShape& shape, int64_t length, const AttentionOptions& options) {
  const FeatureOptions& features = options.features;
  const kernels::MapEntry* map = kernels::FindMap(features.map);
  const bool keeps = shape.device.type == DeviceType::kCuda && shape.type == DataType::kBF16 &&
                     shape.heads == shape.kv_heads && options.renormalize && !options.center_keys &&
                     features.omega_type == OmegaType::kBF16 && features.least_denominator == 0 &&
                     map != nullptr &&
                     kernels::IsFused(*map, shape.dim, shape.value_dim, features.features);
  return keeps ? kernels::KeptStates::Bytes(shape.batch * shape.heads, length, features.features,
                                            shape.value_dim, shape.forgets)
               : 0;
}

class Linear : public Kind {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view summary() const override { return "random features, O(L)"; }
  bool TakesPlan() const override { return true; }
  bool TakesDecay() const override { return true; }
  bool ChecksWhileItWorks() const override { return true; }
  bool RunsOnGpu() const override { return true; }
  bool ChecksInputsOnGpu() const override { return true; }

  void Complete(const AttentionOptions& options, const Context& context,
                Call& call) const override {
    CompleteLinear(options, context, call);
  }

  void Forward(const Call& call, const ForwardTo& to, const Context& context) const override {
    if (call.compat != Compat::kNone) return AttendCompatibly(call, to.out, to.tally, context);
    auto trace =
        std::make_unique<LinearTrace>(call, /*keeps_states=*/to.trace != nullptr, context,
                                      to.trace == nullptr ? nullptr : std::move(to.trace->own));
    kernels::LinearArguments arguments{.call = to.Arguments(call.problem),
                                       .heads = trace->Heads(call.problem),
                                       .states = trace->states(),
                                       .kept = trace->kept()};
    arguments.call.checks_inputs = true;
    kernels::LinearAttention(arguments, context);
    if (to.trace != nullptr) to.trace->own = std::move(trace);
  }

  void Backward(const Call& call, const BackwardTo& to, const Context& context) const override {
    const auto& trace = dynamic_cast<const LinearTrace&>(*to.trace.own);
    kernels::LinearAttentionBackward({.call = to.Gradients(call.problem),
                                      .heads = trace.Heads(call.problem),
                                      .states = trace.states(),
                                      .kept = trace.kept(),
                                      .own_mean = call.center_keys && call.key_mean == nullptr},
                                     context);
  }

  int64_t TraceBytes(const CacheShape& shape, int64_t length,
                     const AttentionOptions& options) const override {
    if (options.causal) return KeptBytes(shape, length, options);
    const int64_t width = features::WidthOf(options.features, shape.dim);
    return shape.batch * shape.heads * kernels::PrefixState::Bytes(width, shape.value_dim);
  }

  // Four products of [length, m] forward: of ω and of values with features of keys and of queries;
  // twelve with gradients.
  double Flops(const CacheShape& shape, int64_t length, const AttentionOptions& options,
               bool backward) const override {
    const auto rows = static_cast<double>(shape.batch * shape.heads * length),
               dims = static_cast<double>(shape.dim + shape.value_dim);
    return rows * ProductColumns(shape, options) * dims * 4 * (backward ? 3 : 1);
  }

  // One for each feature of a query and of a key, if the map has exponents.
  double Exponentials(const CacheShape& shape, int64_t length, const AttentionOptions& options,
                      bool backward) const override {
    const kernels::MapEntry* map =
        kernels::FindMap(options.plan ? options.plan->map().name : options.features.map);
    if (map == nullptr || map->IsRowMap() || map->flat) return 0;
    const double columns = ProductColumns(shape, options) * map->traits->info.parts;
    return static_cast<double>(shape.batch * shape.heads * length) * 2 * columns *
           (backward ? 2 : 1);
  }

  std::unique_ptr<Cache> MakeCache(const CacheShape& shape,
                                   const AttentionOptions& options) const override {
    return std::make_unique<LinearCache>(
        AttentionState(*options.plan, {.batch = shape.batch,
                                       .value_dim = shape.value_dim,
                                       .scale = options.scale,
                                       .forgets = shape.forgets,
                                       .device = shape.device}));
  }
};

}  // namespace

const Kind& LinearKind() {
  static const Linear kind;
  return kind;
}

}  // namespace favor::attention
