// Attend: checks the call, runs its kind of attention, and refuses results that are not finite.
#include "attention/attend.h"

#include <algorithm>
#include <utility>

#include "attention/check_outputs.h"
#include "core/access.h"
#include "core/error_text.h"
#include "kernels/attention_checks.h"

namespace favor {
namespace attention {
namespace {

Tensor LogSums(const Call& call, Tensor memory) {
  const Shape shape{call.problem.Groups(), call.problem.query_length};
  const bool fits = !memory.empty() && memory.shape() == shape && memory.type() == RowType(call) &&
                    memory.device() == call.device();
  return fits ? std::move(memory) : Tensor(shape, RowType(call), call.device());
}

}  // namespace

Trace::Trace(const Call& call, Trace earlier)
    : kind(&call.kind),
      q(call.problem.q.shape()),
      k(call.problem.k.shape()),
      v(call.problem.v.shape()),
      causal(call.problem.causal),
      normalize(call.problem.normalize),
      scale(call.problem.scale),
      center_keys(call.center_keys),
      frozen_mean(call.key_mean != nullptr),
      kind_options(call.kind_options),
      mask_hash(HashOf(call.marks.mask())),
      decay_hash(HashOfNumbers(call.marks.log_decay())),
      log_sum(LogSums(call, std::move(earlier.log_sum))),
      own(earlier.kind == &call.kind ? std::move(earlier.own) : nullptr) {}

void Forward(const Call& call, const ForwardTo& to, const Context& context) {
  const bool on_gpu = call.device().type == DeviceType::kCuda,
             looks =
                 call.kind.ChecksWhileItWorks() && !call.reference && call.compat == Compat::kNone;
  if (on_gpu ? !call.kind.ChecksInputsOnGpu() : !looks) {
    kernels::AttentionProblem read = call.problem;
    if (!call.kind.ReadsQueriesAndKeys()) read.q = read.k = {};
    kernels::CountUnusable({.problem = read, .key_mean = {}, .tally = to.tally}, context);
  }
  call.kind.Forward(call, to, context);
  if (!on_gpu && !looks) kernels::CountNotFinite({.array = to.out, .tally = to.tally}, context);
}

}  // namespace attention

namespace {

constexpr int64_t kMatrixColumns = 64;  // columns of the attention matrix at a time

// Forward, with unusable rows reported as errors of a public call.
TallyEntry ForwardOrThrow(const attention::Call& call, const View& out, attention::Trace* trace,
                          const Context& context) {
  const Tally tally(context);
  attention::Forward(call, {.out = out, .trace = trace, .tally = tally.At()}, context);
  const TallyEntry counts = tally.Read()[0];
  if (counts.unusable == 0) return counts;
  attention::ExplainUnusable(call.problem);
  Throw(ErrorCode::kInvalidData, "attend", "the result exceeds the range of {}{}", Name(out.type()),
        call.problem.normalize ? ""
                               : " (unnormalised sums of exponentials grow fast: use smaller "
                                 "inputs or the normalised output)");
}

void AttendChecked(const attention::Call& call, const AttentionInputs& inputs,
                   const AttentionOptions& options, const Context& context, View out,
                   const AttentionExtras& extras) {
  const auto& [q, k, v] = inputs;
  const auto& [report, trace] = extras;
  attention::CheckOutputs("attend", {{"out", out, call.output_shape, attention::OtherType(call)}},
                          {{"q", q},
                           {"k", k},
                           {"v", v},
                           {"key_mask", options.key_mask},
                           {"log_decay", options.log_decay},
                           {"key_mean", options.key_mean}},
                          {call.OutputType(), call.device()});
  attention::Trace traced;
  if (trace != nullptr) {
    if (options.compat != Compat::kNone)
      Throw(ErrorCode::kInvalidOption, "attend", "given compat, which has no gradients to trace");
    traced = attention::Trace(call);
  }
  const TallyEntry counts =
      ForwardOrThrow(call, out.AsRank4(), trace == nullptr ? nullptr : &traced, context);
  if (report != nullptr)
    *report = {.nonpositive_rows = counts.nonpositive, .empty_rows = counts.empty};
  if (trace != nullptr)  // only after success
    *trace = internal::Access::Make<AttentionTrace>(std::move(traced));
}

}  // namespace

AttentionTrace::AttentionTrace() : impl_(std::make_unique<attention::Trace>()) {}
AttentionTrace::AttentionTrace(attention::Trace trace)
    : impl_(std::make_unique<attention::Trace>(std::move(trace))) {}
AttentionTrace::~AttentionTrace() = default;
AttentionTrace::AttentionTrace(AttentionTrace&&) noexcept = default;
AttentionTrace& AttentionTrace::operator=(AttentionTrace&&) noexcept = default;

int64_t AttentionTrace::Bytes() const { return impl_ == nullptr ? 0 : impl_->Bytes(); }

void AttendInto(const AttentionInputs& inputs, const AttentionOptions& options,
                const Context& context, View out, const AttentionExtras& extras) {
  AttendChecked(attention::CheckCall(inputs, options, context), inputs, options, context, out,
                extras);
}

Tensor Attend(ConstView q, ConstView k, ConstView v, const AttentionOptions& options,
              const Context& context, const AttentionExtras& extras) {
  const attention::Call call = attention::CheckCall({q, k, v}, options, context);
  Tensor out(call.output_shape, call.OutputType(), call.device());
  AttendChecked(call, {q, k, v}, options, context, out, extras);
  return out;
}

Tensor AttentionMatrix(ConstView q, ConstView k, const AttentionOptions& options,
                       const Context& context) {
  // There are no values yet: the keys stand in, which have the right length.
  attention::Call call = attention::CheckCall({q, k, k}, options, context);
  kernels::AttentionProblem& problem = call.problem;
  const int64_t length = problem.key_length;
  Tensor matrix(q.shape().WithLast(length), call.OutputType(), call.device());
  for (int64_t first = 0; first < length; first += kMatrixColumns) {
    const int64_t columns = std::min(kMatrixColumns, length - first);
    Tensor one_hot({length, columns});
    for (int64_t i = 0; i < columns; ++i) one_hot.Data<float>()[(first + i) * columns + i] = 1;
    if (call.device() != Device{}) one_hot = one_hot.To(problem.k.type()).To(call.device());
    // The same values for every batch and head: strides of 0.
    problem.v = ConstView(std::as_const(one_hot).view().data(), one_hot.type(),
                          {problem.batch, problem.kv_heads, length, columns}, {0, 0, columns, 1},
                          call.device());
    problem.value_dim = columns;
    ForwardOrThrow(call, matrix.view().AsRank4().Range(3, first, columns), nullptr, context);
  }
  return matrix;
}

}  // namespace favor
