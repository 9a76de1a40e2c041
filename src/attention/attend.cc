#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/check_outputs.h"
#include "attention/kinds.h"
#include "attention/linear_heads.h"
#include "attention/record.h"
#include "core/error_text.h"
#include "favor/attention.h"

namespace favor {
namespace {

constexpr int64_t kMatrixColumns = 64;  // of the attention matrix at a time

// Options of linear attention say nothing to the others: given all the same, they are a mistake.
void RefuseLinearOptions(const AttentionOptions& options) {
  const bool given =
      options.compat != Compat::kNone || options.center_keys || options.plan.has_value();
  if (given) {
    Throw(ErrorCode::kInvalidOption, "attend",
          "given a plan, key centring or compat: they belong to linear attention, not to '{}'",
          options.attention);
  }
}

kernels::RowCounts Run(const attention::ForwardCall& call) {
  const attention::AttentionKind& kind = call.problem.kind;
  const bool fast = !call.options.reference && call.options.compat == Compat::kNone;
  if (!kind.checks_ranges || !fast) attention::CheckRanges(call.problem);
  if (!kind.takes_plan) RefuseLinearOptions(call.options);
  const kernels::RowCounts counts = kind.forward(call);
  if (counts.unusable == 0 && (kind.checks_results || AllFinite(call.out))) return counts;
  attention::CheckRanges(call.problem);
  Throw(ErrorCode::kInvalidData, "attend", "the result exceeds the range of {}{}",
        Name(call.out.type()),
        call.options.renormalize ? ""
                                 : " (unnormalised sums of exponentials grow fast: use smaller "
                                   "inputs or the normalised output)");
}

}  // namespace

namespace attention {

kernels::OutputRows ForwardCall::Rows(int64_t group) const {
  return {.output = out.At(problem.Batch(group)).At(problem.Head(group)),
          .normalize = options.renormalize,
          .log_sum =
              record == nullptr ? nullptr : record->log_sum.data() + group * problem.query_length};
}

}  // namespace attention

AttentionRecord::AttentionRecord() : impl_(std::make_unique<Impl>()) {}
AttentionRecord::AttentionRecord(Impl impl) : impl_(std::make_unique<Impl>(std::move(impl))) {}
AttentionRecord::~AttentionRecord() = default;
AttentionRecord::AttentionRecord(AttentionRecord&&) noexcept = default;
AttentionRecord& AttentionRecord::operator=(AttentionRecord&&) noexcept = default;

int64_t AttentionRecord::Bytes() const {
  if (impl_ == nullptr) return 0;  // moved from
  auto bytes = static_cast<int64_t>(impl_->log_sum.size() * sizeof(double));
  for (const kernels::PrefixState& state : impl_->states)
    bytes += kernels::PrefixState::Bytes(state.width, state.value_dim);
  return bytes;
}

namespace {

void AttendChecked(const attention::Problem& problem, const AttentionInputs& inputs,
                   const AttentionOptions& options, const Context& context, View out,
                   const AttentionExtras& extras) {
  const auto& [q, k, v] = inputs;
  const auto& [report, record] = extras;
  attention::CheckOutputs("attend", {{"out", out, problem.output_shape}},
                          {{"q", q},
                           {"k", k},
                           {"v", v},
                           {"key_mask", options.key_mask},
                           {"key_mean", options.key_mean}},
                          options.reference);
  AttentionRecord::Impl recorded{.kind = &problem.kind,
                                 .q = q.shape(),
                                 .k = k.shape(),
                                 .v = v.shape(),
                                 .causal = options.causal,
                                 .renormalize = options.renormalize,
                                 .scale = problem.scale,
                                 .centred = options.center_keys,
                                 .frozen_mean = options.key_mean.data() != nullptr,
                                 .mask_hash = attention::HashOf(problem.mask)};
  if (record != nullptr) {
    if (options.compat != Compat::kNone)
      Throw(ErrorCode::kInvalidOption, "attend", "given compat, which has no gradients to record");
    recorded.log_sum.assign(static_cast<size_t>(problem.Groups() * problem.query_length), 0.0);
  }
  const kernels::RowCounts counts = Run({.problem = problem,
                                         .options = options,
                                         .context = context,
                                         .out = out.AsRank4(),
                                         .record = record == nullptr ? nullptr : &recorded});
  if (report != nullptr)
    *report = {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
  if (record != nullptr) *record = AttentionRecord(std::move(recorded));  // only after success
}

}  // namespace

void AttendInto(const AttentionInputs& inputs, const AttentionOptions& options,
                const Context& context, View out, const AttentionExtras& extras) {
  const attention::Problem problem = attention::CheckProblem(inputs.q, inputs.k, inputs.v, options);
  AttendChecked(problem, inputs, options, context, out, extras);
}

Tensor Attend(ConstView q, ConstView k, ConstView v, const AttentionOptions& options,
              const Context& context, const AttentionExtras& extras) {
  const attention::Problem problem = attention::CheckProblem(q, k, v, options);
  Tensor out(problem.output_shape, options.reference ? DataType::kF64 : DataType::kF32);
  AttendChecked(problem, {q, k, v}, options, context, out, extras);
  return out;
}

Tensor AttentionMatrix(ConstView q, ConstView k, const AttentionOptions& options,
                       const Context& context) {
  attention::Problem problem =
      attention::CheckProblem(q, k, k, options);  // the keys stand in for values of their length
  AttentionOptions one_plan = options;
  if (problem.kind.takes_plan) one_plan.plan = attention::ChoosePlan(problem, options, context);
  const int64_t length = problem.key_length;
  Tensor matrix(q.shape().WithLast(length), options.reference ? DataType::kF64 : DataType::kF32);
  for (int64_t first = 0; first < length; first += kMatrixColumns) {
    const int64_t columns = std::min(kMatrixColumns, length - first);
    Tensor one_hot({length, columns});
    for (int64_t i = 0; i < columns; ++i) one_hot.Data<float>()[(first + i) * columns + i] = 1;
    // The same values for every batch and head: strides of 0.
    problem.v =
        ConstView(std::as_const(one_hot).view().data(), DataType::kF32,
                  {problem.batch, problem.kv_heads, length, columns}, {0, 0, columns, 1}, Device{});
    problem.value_dim = columns;
    std::ignore = Run({.problem = problem,  // throws where rows are unusable; others are 0
                       .options = one_plan,
                       .context = context,
                       .out = matrix.view().AsRank4().Range(3, first, columns)});
  }
  return matrix;
}

}  // namespace favor
