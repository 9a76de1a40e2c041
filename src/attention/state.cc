#include "favor/state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "attention/call.h"
#include "attention/check_outputs.h"
#include "attention/state_data.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/repeated.h"
#include "kernels/attention_checks.h"

namespace favor {
namespace attention {

kernels::AttentionProblem State::Problem(const ConstView& q, const ConstView& k,
                                         const ConstView& v) const {
  kernels::AttentionProblem problem{.q = q.empty() ? q : q.AsRank4(),
                                    .k = k.empty() ? k : k.AsRank4(),
                                    .v = v.empty() ? v : v.AsRank4()};
  problem.batch = batch;
  problem.heads = plan.heads();
  problem.kv_heads = k.empty() ? plan.heads() : problem.k.size(1);
  problem.query_length = q.empty() ? 0 : problem.q.size(2);
  problem.key_length = k.empty() ? 0 : problem.k.size(2);
  problem.dim = plan.dim();
  problem.value_dim = value_dim;
  problem.causal = true;
  problem.scale = scale;
  return problem;
}

kernels::LinearHeads State::Heads() const {
  return {.features = features::ConstantsOf(plan),
          .oprf_a = {},
          .key_mean = ForEveryBatch(key_mean, batch)};
}

State State::To(const Device& where) const {
  return {.plan = plan,
          .batch = batch,
          .value_dim = value_dim,
          .scale = scale,
          .key_mean = key_mean.To(where),
          .states = states.To(where),
          .begin = begin,
          .end = end,
          .forgets = forgets};
}

State State::Repeated(int64_t times) const {
  State all = To(device());
  if (times == 1) return all;
  all.batch = batch * times;
  all.states = kernels::StateTensors(all.Groups(), plan.width(), value_dim).To(device());
  const kernels::PrefixStates from = states.views(), to = all.states.views();
  Repeat(from.tokens, to.tokens);
  Repeat(from.c, to.c);
  Repeat(from.z, to.z);
  Repeat(from.s, to.s);
  Repeat(from.log_decay, to.log_decay);
  return all;
}

void State::Continue(const AttentionInputs& inputs, const ConstView& mask,
                     const ConstView& log_decay, const View& out, TallyEntry* tally,
                     const Context& context) {
  kernels::AttentionProblem problem = Problem(inputs.q, inputs.k, inputs.v);
  problem.mask = mask;
  problem.log_decay = log_decay;
  const bool is_checked_there = device().type == DeviceType::kCuda;
  if (!is_checked_there) {
    kernels::CountUnusable({.problem = problem, .key_mean = Heads().key_mean, .tally = tally},
                           context);
  }
  kernels::LinearAttention({.call = {.problem = problem,
                                     .out = out.AsRank4(),
                                     .log_sum = {},
                                     .tally = tally,
                                     .checks_inputs = is_checked_there},
                            .heads = Heads(),
                            .states = states.views()},
                           context);
}

}  // namespace attention

namespace {

using attention::State;

constexpr std::string_view kWho = "state";

// Checks q, k or v against the state: device, rank, batch, heads, dim.
void CheckRows(const State& state, const ConstView& rows, int64_t dim, bool keys,
               std::string_view name) {
  if (rows.data() == nullptr) Throw(ErrorCode::kInvalidData, kWho, "{}: given no array", name);
  attention::CheckArrayOn(state.device(), rows, kWho, name);
  const ConstView r = rows.AsRank4();
  const int64_t heads = state.plan.heads();
  const bool heads_fit = keys ? r.size(1) > 0 && heads % r.size(1) == 0 : r.size(1) == heads;
  if (rows.rank() < 2 || r.size(0) != state.batch || !heads_fit || r.size(3) != dim ||
      rows.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given shape {}, expected rows of dim {} for batch {} and {} heads", name,
          rows.shape().ToString(), dim, state.batch, heads);
  }
}

// Kernels of a GPU read arrays of one type.
void CheckTypes(const State& state, const ConstView& one, const ConstView& other) {
  if (state.device().type == DeviceType::kCuda && one.type() != other.type())
    Throw(ErrorCode::kInvalidData, kWho, "given arrays of {} and {} on {}, expected one type",
          Name(one.type()), Name(other.type()), Name(state.device()));
}

void CheckKeys(const State& state, const ConstView& k, const ConstView& v) {
  CheckTypes(state, k, v);
  CheckRows(state, k, state.plan.dim(), true, "k");
  CheckRows(state, v, state.value_dim, true, "v");
  if (k.AsRank4().size(1) != v.AsRank4().size(1) || k.AsRank4().size(2) != v.AsRank4().size(2)) {
    Throw(ErrorCode::kInvalidData, kWho, "given k {} and v {}, expected the same heads and length",
          k.shape().ToString(), v.shape().ToString());
  }
}

void CheckRoom(const State& state, int64_t tokens) {
  if (tokens > kernels::kMostTokens - state.end)
    Throw(ErrorCode::kInvalidData, kWho,
          "given {} tokens behind position {}, expected at most 2^53", tokens, state.end);
}

// The mask and the decays of new tokens, which the problem then points to.
attention::TokenMarks CheckMarks(const State& state, const TokenOptions& options,
                                 const Context& context, kernels::AttentionProblem& problem) {
  const bool given = options.log_decay.data() != nullptr;
  if (given != state.forgets)
    Throw(ErrorCode::kInvalidOption, "log_decay", "{}",
          given ? "given to a state that forgets nothing"
                : "not given to a state that forgets, expected one number per token");
  return {options.key_mask, options.log_decay, context, problem};
}

// [.., L, d] → [.., L].
Shape WithoutLast(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int axis = 0; axis < shape.rank() - 1; ++axis)
    sizes[static_cast<size_t>(axis)] = shape[axis];
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(shape.rank() - 1)));
}

// [B, H, L, ..] of any rank as [B · H, L, ..].
View AsGroups(Tensor& tensor, int64_t groups, int64_t length, int64_t columns) {
  const Shape shape = columns == 0 ? Shape{groups, length} : Shape{groups, length, columns};
  return {tensor.view().data(), tensor.type(), shape, RowMajorStrides(shape), tensor.device()};
}

// Explains keys that are refused because they are too far from the key mean: each may be in range
// while their difference is not.
void ExplainCentred(const State& state, const kernels::AttentionProblem& problem) {
  if (state.key_mean.empty() || problem.k.empty()) return;
  const HostCopy means(state.key_mean), all_keys(problem.k), mask(problem.mask);
  const double mean = LargestAbsolute(means.view());
  const auto d = static_cast<double>(problem.dim);
  if (state.scale * mean * mean * d > kernels::kLargestNorm)
    Throw(ErrorCode::kInvalidData, kWho, "given a key mean up to {:.3g}, which is out of range",
          mean);
  for (int64_t group = 0; group < problem.Groups(); ++group) {
    const ConstView keys = problem.OfKeys(all_keys.view(), group);
    const float* exists =
        mask.view().empty() ? nullptr : problem.OfKeys(mask.view(), group).Data<float>();
    const double* m = means.view().At(0).At(problem.Head(group)).Data<double>();
    for (int64_t row = 0; row < keys.size(0); ++row) {
      if (exists != nullptr && exists[row] == 0) continue;
      double square = 0;
      for (int64_t i = 0; i < keys.size(1); ++i)
        square += std::pow(ElementAt(keys, row, i) - m[i], 2);
      if (state.scale * square > kernels::kLargestNorm)
        Throw(ErrorCode::kInvalidData, kWho,
              "k: given row {} at a distance of {:.3g} from the key mean, which is out of range",
              row, std::sqrt(square));
    }
  }
}

// Returns the counts of a call's tally, or throws with the reason why it was refused.
AttentionReport ReadTally(const Tally& tally, const State& state,
                          const kernels::AttentionProblem& problem) {
  const TallyEntry counts = tally.Read()[0];
  if (counts.unusable > 0) {
    attention::ExplainUnusable(problem);
    ExplainCentred(state, problem);
    Throw(ErrorCode::kInvalidData, kWho, "a sum over keys exceeds the range of floats");
  }
  return {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
}

}  // namespace

AttentionState::AttentionState(const FeaturePlan& plan, const StateOptions& options)
    : impl_(std::make_unique<State>(State{.plan = plan,
                                          .batch = options.batch,
                                          .value_dim = options.value_dim,
                                          .begin = options.begin,
                                          .end = options.begin,
                                          .forgets = options.forgets})) {
  if (options.batch < 1 || options.batch > 65536) {
    Throw(ErrorCode::kInvalidOption, kWho, "given batch {}, expected 1 to 65536", options.batch);
  }
  if (options.value_dim < 1 || options.value_dim > 65536) {
    Throw(ErrorCode::kInvalidOption, kWho, "given value dim {}, expected 1 to 65536",
          options.value_dim);
  }
  if (options.begin < 0 || options.begin > kernels::kMostTokens)
    Throw(ErrorCode::kInvalidOption, kWho, "given begin {}, expected 0 to 2^53", options.begin);
  impl_->scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(plan.dim())));
  if (!(impl_->scale > 0) || !std::isfinite(impl_->scale)) {
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a number above 0", impl_->scale);
  }
  if (options.key_mean.data() != nullptr) {
    attention::CheckCentring(plan);
    impl_->key_mean = attention::FrozenMean(options.key_mean, plan.heads(), plan.dim());
  }
  impl_->states = kernels::StateTensors(impl_->Groups(), plan.width(), options.value_dim);
  if (options.device != Device{}) *impl_ = impl_->To(options.device);
}

AttentionState::AttentionState(std::unique_ptr<State> impl) : impl_(std::move(impl)) {}
AttentionState::~AttentionState() = default;
AttentionState::AttentionState(AttentionState&&) noexcept = default;
AttentionState& AttentionState::operator=(AttentionState&&) noexcept = default;

AttentionState AttentionState::Clone() const { return To(device()); }
AttentionState AttentionState::To(const Device& where) const {
  return AttentionState(std::make_unique<State>(impl_->To(where)));
}

const FeaturePlan& AttentionState::plan() const { return impl_->plan; }
int64_t AttentionState::batch() const { return impl_->batch; }
int64_t AttentionState::value_dim() const { return impl_->value_dim; }
double AttentionState::scale() const { return impl_->scale; }
int64_t AttentionState::begin() const { return impl_->begin; }
int64_t AttentionState::end() const { return impl_->end; }
bool AttentionState::forgets() const { return impl_->forgets; }
Device AttentionState::device() const { return impl_->device(); }

int64_t AttentionState::tokens() const {
  const HostCopy counts(impl_->states.views().tokens);
  const double* tokens = counts.view().Data<double>();
  return static_cast<int64_t>(*std::max_element(tokens, tokens + impl_->Groups()));
}

int64_t AttentionState::Bytes() const { return impl_->states.Bytes(); }

void AttentionState::Append(ConstView k, ConstView v, const Context& context,
                            const TokenOptions& options) {
  CheckKeys(*impl_, k, v);
  attention::CheckContext(device(), context, kWho);
  kernels::AttentionProblem problem = impl_->Problem({}, k, v);
  CheckRoom(*impl_, problem.key_length);
  const attention::TokenMarks marks = CheckMarks(*impl_, options, context, problem);
  const Tally tally(context);
  kernels::CountUnusable(
      {.problem = problem, .key_mean = impl_->Heads().key_mean, .tally = tally.At()}, context);
  kernels::LinearAppend(
      {.call = {.problem = problem, .out = {}, .log_sum = {}, .tally = tally.At()},
       .heads = impl_->Heads(),
       .states = impl_->states.views()},
      context);
  ReadTally(tally, *impl_, problem);
  impl_->end += problem.key_length;
}

Tensor AttentionState::Attend(ConstView q, const Context& context, AttentionReport* report) const {
  CheckRows(*impl_, q, impl_->plan.dim(), false, "q");
  attention::CheckContext(device(), context, kWho);
  Tensor out(q.shape().WithLast(impl_->value_dim), DataType::kF32, device());
  const kernels::AttentionProblem problem = impl_->Problem(q, {}, {});
  const Tally tally(context);
  kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally.At()}, context);
  kernels::LinearRead({.call = {.problem = problem,
                                .out = out.view().AsRank4(),
                                .log_sum = {},
                                .tally = tally.At()},
                       .heads = impl_->Heads(),
                       .states = impl_->states.views()},
                      context);
  const AttentionReport result = ReadTally(tally, *impl_, problem);
  if (report != nullptr) *report = result;
  return out;
}

Tensor AttentionState::Continue(ConstView q, ConstView k, ConstView v, const Context& context,
                                const TokenOptions& options, AttentionReport* report) {
  CheckRows(*impl_, q, impl_->plan.dim(), false, "q");
  Tensor out(q.shape().WithLast(impl_->value_dim), DataType::kF32, device());
  ContinueInto({q, k, v}, context, out, options, report);
  return out;
}

void AttentionState::ContinueInto(const AttentionInputs& inputs, const Context& context, View out,
                                  const TokenOptions& options, AttentionReport* report) {
  const ConstView &q = inputs.q, &k = inputs.k, &v = inputs.v;
  CheckRows(*impl_, q, impl_->plan.dim(), false, "q");
  CheckKeys(*impl_, k, v);
  CheckTypes(*impl_, q, k);
  attention::CheckContext(device(), context, kWho);
  const int64_t length = q.AsRank4().size(2);
  if (k.AsRank4().size(2) != length) {
    Throw(ErrorCode::kInvalidData, kWho, "given {} queries and {} keys, expected the same number",
          length, k.AsRank4().size(2));
  }
  CheckRoom(*impl_, length);
  kernels::AttentionProblem problem = impl_->Problem(q, k, v);
  const attention::TokenMarks marks = CheckMarks(*impl_, options, context, problem);
  const bool on_gpu = device().type == DeviceType::kCuda;
  attention::CheckOutputs(kWho,
                          {{"out", out, q.shape().WithLast(impl_->value_dim),
                            on_gpu ? std::optional(q.type()) : std::nullopt}},
                          {{"q", q},
                           {"k", k},
                           {"v", v},
                           {"key_mask", options.key_mask},
                           {"log_decay", options.log_decay}},
                          {DataType::kF32, device()});
  const Tally tally(context);
  impl_->Continue(inputs, problem.mask, problem.log_decay, out, tally.At(), context);
  const AttentionReport result = ReadTally(tally, *impl_, problem);
  impl_->end += length;
  if (report != nullptr) *report = result;
}

AttentionState::Parts AttentionState::Read(ConstView q, const Context& context) const {
  CheckRows(*impl_, q, impl_->plan.dim(), false, "q");
  attention::CheckContext(device(), context, kWho);
  const Shape rows_shape = WithoutLast(q.shape());
  Parts parts{Tensor(rows_shape, DataType::kF64, device()),
              Tensor(q.shape().WithLast(impl_->value_dim), DataType::kF64, device()),
              Tensor(rows_shape, DataType::kF64, device())};
  const kernels::AttentionProblem problem = impl_->Problem(q, {}, {});
  const int64_t groups = problem.Groups(), length = problem.query_length;
  const Tally tally(context);
  kernels::CountUnusable({.problem = problem, .key_mean = {}, .tally = tally.At()}, context);
  kernels::LinearRead(
      {.call = {.problem = problem,
                .out = {},
                .log_sum = {},
                .tally = tally.At(),
                .parts = {.log_scale = AsGroups(parts.log_scale, groups, length, 0),
                          .numerator = AsGroups(parts.numerator, groups, length, impl_->value_dim),
                          .denominator = AsGroups(parts.denominator, groups, length, 0)}},
       .heads = impl_->Heads(),
       .states = impl_->states.views()},
      context);
  ReadTally(tally, *impl_, problem);
  return parts;
}

namespace {

bool SameNumbers(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  const HostCopy one(a), other(b);
  const auto count = static_cast<size_t>(a.shape().Elements());
  return std::ranges::equal(std::span(one.view().Data<double>(), count),
                            std::span(other.view().Data<double>(), count));
}

// Throws unless the tokens of b can follow those of a.
void CheckMerge(const State& a, const State& b) {
  const auto refuse = [](std::string_view what) {
    Throw(ErrorCode::kInvalidData, kWho, "cannot merge these states: {} differs", what);
  };
  if (a.device() != b.device()) refuse("the device");
  if (a.plan.map().name != b.plan.map().name) refuse("the map");
  if (a.batch != b.batch || a.plan.heads() != b.plan.heads() || a.plan.dim() != b.plan.dim() ||
      a.value_dim != b.value_dim || a.plan.features() != b.plan.features()) {
    refuse("the size");
  }
  if (a.scale != b.scale) refuse("the scale");
  if (!SameNumbers(a.key_mean, b.key_mean)) refuse("the key mean");
  const kernels::FeatureConstants &mine = features::ConstantsOf(a.plan),
                                  &theirs = features::ConstantsOf(b.plan);
  for (int64_t head = 0; head < a.plan.heads(); ++head) {
    if (mine.Head(head).oprf_a != theirs.Head(head).oprf_a) refuse("oprf's A");
  }
  if (mine.epsilon() != theirs.epsilon()) refuse("the kernel epsilon");
  if (!mine.Equals(theirs)) refuse("ω");
  if (a.forgets != b.forgets)
    Throw(ErrorCode::kInvalidData, kWho, "cannot merge these states: one of them forgets");
  if (a.forgets && a.end != b.begin)
    Throw(ErrorCode::kInvalidData, kWho,
          "cannot merge these states: given one that ends at token {} and one that begins at {}; "
          "states that forget must follow each other",
          a.end, b.begin);
  CheckRoom(a, b.end - b.begin);
}

}  // namespace

void AttentionState::Merge(const AttentionState& later, const Context& context) {
  CheckMerge(*impl_, *later.impl_);
  attention::CheckContext(device(), context, kWho);
  kernels::MergeStates({.later = later.impl_->states.views(), .states = impl_->states.views()},
                       context);
  context.Wait();  // other contexts may read the state from now on
  impl_->end += later.end() - later.begin();
}

void AttentionState::Merge(const AttentionState& later) {
  if (device() != Device{})
    Throw(ErrorCode::kInvalidOption, kWho, "given states on {} to merge, expected a context there",
          Name(device()));
  CheckMerge(*impl_, *later.impl_);
  for (int64_t group = 0; group < impl_->Groups(); ++group)
    kernels::MergeInto(later.impl_->states.views().At(group), impl_->states.views().At(group));
  impl_->end += later.end() - later.begin();
}

}  // namespace favor
