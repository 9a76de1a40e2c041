#include "favor/state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/check_outputs.h"
#include "attention/linear_heads.h"
#include "attention/problem.h"
#include "attention/state_impl.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/parallel.h"
#include "kernels/linear_attention.h"
#include "kernels/project.h"

namespace favor {
namespace {

constexpr std::string_view kWho = "state";

// q, or k and v, against the state: ranks, batch, heads, dims.
void CheckRows(const AttentionState::Impl& impl, const ConstView& rows, int64_t dim, bool keys,
               std::string_view name) {
  if (rows.data() == nullptr || rows.device().kind != DeviceKind::kCpu) {
    Throw(ErrorCode::kUnavailable, kWho, "{}: expected an array on the cpu", name);
  }
  const ConstView r = rows.AsRank4();
  const int64_t heads = impl.plan.heads();
  const bool heads_fit = keys ? r.size(1) > 0 && heads % r.size(1) == 0 : r.size(1) == heads;
  if (rows.rank() < 2 || r.size(0) != impl.batch || !heads_fit || r.size(3) != dim ||
      rows.shape().Elements() == 0) {
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given shape {}, expected rows of dim {} for batch {} and {} heads", name,
          rows.shape().ToString(), dim, impl.batch, heads);
  }
}

void CheckQueries(const AttentionState::Impl& impl, const ConstView& q) {
  CheckRows(impl, q, impl.plan.dim(), false, "q");
  attention::CheckQueryRange(q, impl.scale);
}

void CheckKeys(const AttentionState::Impl& impl, const ConstView& k, const ConstView& v) {
  CheckRows(impl, k, impl.plan.dim(), true, "k");
  CheckRows(impl, v, impl.value_dim, true, "v");
  if (k.AsRank4().size(1) != v.AsRank4().size(1) || k.AsRank4().size(2) != v.AsRank4().size(2)) {
    Throw(ErrorCode::kInvalidData, kWho, "given k {} and v {}, expected the same heads and length",
          k.shape().ToString(), v.shape().ToString());
  }
}

// [.., L, d] → [.., L].
Shape WithoutLast(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> sizes{};
  for (int axis = 0; axis < shape.rank() - 1; ++axis)
    sizes[static_cast<size_t>(axis)] = shape[axis];
  return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(shape.rank() - 1)));
}

// The rows of one batch entry and head.
struct GroupRows {
  GroupRows(const AttentionState::Impl& impl, int64_t group)
      : state_(impl), batch(group / impl.plan.heads()), head(group % impl.plan.heads()) {}

  kernels::QueryRows Queries(const ConstView& q) const {
    return {.queries = q.AsRank4().At(batch).At(head),
            .sqrt_scale = std::sqrt(state_.scale),
            .key_mean = state_.Mean(head)};
  }
  kernels::KeyRows Keys(const ConstView& k, const ConstView& v,
                        const std::vector<float>& mask) const {
    const ConstView k4 = k.AsRank4(), v4 = v.AsRank4();
    const int64_t kv_heads = k4.size(1), kv = head / (state_.plan.heads() / kv_heads);
    return {.keys = k4.At(batch).At(kv),
            .values = v4.At(batch).At(kv),
            .mask = mask.empty() ? nullptr : mask.data() + (batch * kv_heads + kv) * k4.size(2),
            .mean = state_.Mean(head),
            .sqrt_scale = std::sqrt(state_.scale)};
  }
  const kernels::HeadFeatures& Features() const { return state_.plan.impl().Head(head); }

 private:
  const AttentionState::Impl& state_;

 public:
  int64_t batch, head;
};

// Keys and mean may each be in range and their difference not.
void CheckCentredRange(const AttentionState::Impl& impl, const ConstView& k,
                       const std::vector<float>& mask) {
  if (impl.mean.empty()) return;
  double mean = 0;
  for (const double value : impl.mean) mean = std::max(mean, std::fabs(value));
  const auto d = static_cast<double>(impl.plan.dim());
  if (impl.scale * mean * mean * d > kernels::kLargestNorm)
    Throw(ErrorCode::kInvalidData, kWho, "given a key mean up to {:.3g}, which is out of range",
          mean);
  const double most = mean + LargestAbsolute(k);  // NaN where a masked key is
  if (impl.scale * most * most * d <= kernels::kLargestNorm) return;
  for (int64_t group = 0; group < impl.Groups(); ++group) {
    const kernels::KeyRows rows = GroupRows(impl, group).Keys(k, k, mask);
    for (int64_t row = 0; row < rows.keys.size(0); ++row) {
      if (rows.mask != nullptr && rows.mask[row] == 0) continue;
      double square = 0;
      for (int64_t i = 0; i < rows.keys.size(1); ++i)
        square += std::pow(ElementAt(rows.keys, row, i) - rows.mean[i], 2);
      if (impl.scale * square > kernels::kLargestNorm)
        Throw(ErrorCode::kInvalidData, kWho,
              "k: given row {} at a distance of {:.3g} from the key mean, which is out of range",
              row, std::sqrt(square));
    }
  }
}

// The expanded mask; keys and values that exist are in range.
std::vector<float> CheckedMask(const AttentionState::Impl& impl, const ConstView& k,
                               const ConstView& v, const ConstView& key_mask) {
  const ConstView k4 = k.AsRank4();
  std::vector<float> mask = attention::ExpandMask(key_mask, impl.batch, k4.size(1), k4.size(2));
  attention::CheckKeyRange(k, mask, impl.scale);
  CheckCentredRange(impl, k, mask);
  attention::CheckValueRange(v, mask);
  return mask;
}

template <class Work>
AttentionReport SumCounts(const Context& context, int64_t pieces, const Work& work) {
  const auto counts = ParallelReduce(
      context, pieces, 1, kernels::RowCounts{}, [&](int64_t piece, int64_t) { return work(piece); },
      [](kernels::RowCounts& total, const kernels::RowCounts& part) { total += part; });
  if (counts.unusable > 0)
    Throw(ErrorCode::kInvalidData, kWho, "a sum over keys exceeds the range of floats");
  return {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
}

constexpr int64_t kReadRows = 256;

}  // namespace

AttentionState::AttentionState(const FeaturePlan& plan, const StateOptions& options)
    : impl_(std::make_unique<Impl>(
          Impl{.plan = plan, .batch = options.batch, .value_dim = options.value_dim})) {
  if (options.batch < 1 || options.batch > 65536) {
    Throw(ErrorCode::kInvalidOption, kWho, "given batch {}, expected 1 to 65536", options.batch);
  }
  if (options.value_dim < 1 || options.value_dim > 65536) {
    Throw(ErrorCode::kInvalidOption, kWho, "given value dim {}, expected 1 to 65536",
          options.value_dim);
  }
  impl_->scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(plan.dim())));
  if (!(impl_->scale > 0) || !std::isfinite(impl_->scale)) {
    Throw(ErrorCode::kInvalidOption, "scale", "given {}, expected a number above 0", impl_->scale);
  }
  if (options.key_mean.data() != nullptr) {
    attention::CheckCentring(plan);
    impl_->mean = attention::FrozenMean(options.key_mean, plan.heads(), plan.dim());
  }
  impl_->states.assign(static_cast<size_t>(impl_->Groups()),
                       kernels::PrefixState(plan.width(), options.value_dim));
}

AttentionState::AttentionState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AttentionState::~AttentionState() = default;
AttentionState::AttentionState(AttentionState&&) noexcept = default;
AttentionState& AttentionState::operator=(AttentionState&&) noexcept = default;

AttentionState AttentionState::Clone() const {
  return AttentionState(std::make_unique<Impl>(*impl_));
}

const FeaturePlan& AttentionState::plan() const { return impl_->plan; }
int64_t AttentionState::batch() const { return impl_->batch; }
int64_t AttentionState::value_dim() const { return impl_->value_dim; }
double AttentionState::scale() const { return impl_->scale; }

int64_t AttentionState::tokens() const {
  int64_t most = 0;
  for (const auto& state : impl_->states) most = std::max(most, state.tokens);
  return most;
}

int64_t AttentionState::Bytes() const {
  return impl_->Groups() * kernels::PrefixState::Bytes(impl_->plan.width(), impl_->value_dim);
}

void AttentionState::Append(ConstView k, ConstView v, const Context& context, ConstView key_mask) {
  CheckKeys(*impl_, k, v);
  const int64_t length = k.AsRank4().size(2);
  const std::vector<float> mask = CheckedMask(*impl_, k, v, key_mask);
  SumCounts(context, impl_->Groups(), [&](int64_t group) {
    const GroupRows rows(*impl_, group);
    return kernels::cpu::AppendKeys(
        {.features = rows.Features(), .context = context, .keys = rows.Keys(k, v, mask)},
        {0, length}, impl_->states[static_cast<size_t>(group)]);
  });
}

Tensor AttentionState::Attend(ConstView q, const Context& context, AttentionReport* report) const {
  CheckQueries(*impl_, q);
  Tensor out(q.shape().WithLast(impl_->value_dim));
  const View to = out.view().AsRank4();
  const int64_t length = q.AsRank4().size(2), reads = (length + kReadRows - 1) / kReadRows;
  const AttentionReport result = SumCounts(context, impl_->Groups() * reads, [&](int64_t piece) {
    const GroupRows rows(*impl_, piece / reads);
    const int64_t begin = piece % reads * kReadRows;
    return kernels::cpu::ReadQueries(
        {.features = rows.Features(), .context = context, .queries = rows.Queries(q)},
        {begin, std::min(length, begin + kReadRows)},
        impl_->states[static_cast<size_t>(piece / reads)],
        {.output = to.At(rows.batch).At(rows.head)});
  });
  if (report != nullptr) *report = result;
  return out;
}

Tensor AttentionState::Continue(ConstView q, ConstView k, ConstView v, const Context& context,
                                ConstView key_mask, AttentionReport* report) {
  CheckQueries(*impl_, q);
  Tensor out(q.shape().WithLast(impl_->value_dim));
  ContinueInto({q, k, v}, context, out, key_mask, report);
  return out;
}

void AttentionState::ContinueInto(const AttentionInputs& inputs, const Context& context, View out,
                                  ConstView key_mask, AttentionReport* report) {
  const ConstView &q = inputs.q, &k = inputs.k, &v = inputs.v;
  CheckQueries(*impl_, q);
  CheckKeys(*impl_, k, v);
  const int64_t length = q.AsRank4().size(2);
  if (k.AsRank4().size(2) != length) {
    Throw(ErrorCode::kInvalidData, kWho, "given {} queries and {} keys, expected the same number",
          length, k.AsRank4().size(2));
  }
  const std::vector<float> mask = CheckedMask(*impl_, k, v, key_mask);
  attention::CheckOutputs(kWho, {{"out", out, q.shape().WithLast(impl_->value_dim)}},
                          {{"q", q}, {"k", k}, {"v", v}, {"key_mask", key_mask}},
                          /*reference=*/false);
  const View to = out.AsRank4();
  const AttentionReport result = SumCounts(context, impl_->Groups(), [&](int64_t group) {
    const GroupRows rows(*impl_, group);
    return kernels::cpu::Causal({.features = rows.Features(),
                                 .context = context,
                                 .queries = rows.Queries(q),
                                 .keys = rows.Keys(k, v, mask)},
                                {0, length}, impl_->states[static_cast<size_t>(group)],
                                {.output = to.At(rows.batch).At(rows.head)});
  });
  if (report != nullptr) *report = result;
}

AttentionState::Parts AttentionState::Read(ConstView q, const Context& context) const {
  CheckQueries(*impl_, q);
  const Shape rows_shape = WithoutLast(q.shape());
  Parts parts{Tensor(rows_shape, DataType::kF64),
              Tensor(q.shape().WithLast(impl_->value_dim), DataType::kF64),
              Tensor(rows_shape, DataType::kF64)};
  const int64_t length = q.AsRank4().size(2);
  SumCounts(context, impl_->Groups(), [&](int64_t group) {
    const GroupRows rows(*impl_, group);
    return kernels::cpu::ReadQueries(
        {.features = rows.Features(), .context = context, .queries = rows.Queries(q)}, {0, length},
        impl_->states[static_cast<size_t>(group)],
        {.log_scale = parts.log_scale.Data<double>() + group * length,
         .numerator = parts.numerator.Data<double>() + group * length * impl_->value_dim,
         .denominator = parts.denominator.Data<double>() + group * length});
  });
  return parts;
}

void AttentionState::Merge(const AttentionState& other) {
  const Impl &a = *impl_, &b = *other.impl_;
  const auto refuse = [](std::string_view what) {
    Throw(ErrorCode::kInvalidData, kWho, "cannot merge states of different kinds: {} differs",
          what);
  };
  if (a.plan.map().name != b.plan.map().name) refuse("the map");
  if (a.batch != b.batch || a.plan.heads() != b.plan.heads() || a.plan.dim() != b.plan.dim() ||
      a.value_dim != b.value_dim || a.plan.features() != b.plan.features()) {
    refuse("the size");
  }
  if (a.scale != b.scale) refuse("the scale");
  if (a.mean != b.mean) refuse("the key mean");
  for (int64_t head = 0; head < a.plan.heads(); ++head) {
    const auto &mine = a.plan.impl().Head(head), &theirs = b.plan.impl().Head(head);
    if (mine.oprf_a != theirs.oprf_a) refuse("oprf's A");
    if (mine.epsilon != theirs.epsilon) refuse("the kernel epsilon");
    if (kernels::reference::DenseRows(mine.omega) != kernels::reference::DenseRows(theirs.omega))
      refuse("ω");
  }
  for (size_t i = 0; i < a.states.size(); ++i) kernels::MergeInto(b.states[i], impl_->states[i]);
}

}  // namespace favor
