// AttendBackward: checks the call and its trace, and runs its kind of attention.
#include <vector>

#include "attention/attend.h"
#include "attention/check_outputs.h"
#include "core/access.h"
#include "core/device_work.h"
#include "core/error_text.h"
#include "kernels/attention_checks.h"

namespace favor {
namespace attention {

void Backward(const Call& call, const Trace& trace, const BackwardArrays& arrays, TallyEntry* tally,
              const Context& context) {
  const WorkArray row_deltas(context, {call.problem.Groups(), call.problem.query_length},
                             RowType(call));
  const View& delta = row_deltas.view();
  kernels::FindDeltas({.problem = call.problem,
                       .out = arrays.out,
                       .grad_out = arrays.grad_out,
                       .delta = delta,
                       .tally = tally},
                      context);
  call.kind.Backward(call,
                     {.trace = trace,
                      .out = arrays.out,
                      .grad_out = arrays.grad_out,
                      .delta = delta,
                      .grad_q = arrays.grad_q,
                      .grad_k = arrays.grad_k,
                      .grad_v = arrays.grad_v,
                      .grad_log_decay = arrays.grad_log_decay,
                      .tally = tally},
                     context);
  if (call.device().type == DeviceType::kCuda) return;
  if (call.kind.ChecksWhileItWorks() && !call.reference) return;
  for (const View& gradient : {arrays.grad_q, arrays.grad_k, arrays.grad_v}) {
    if (!gradient.empty()) kernels::CountNotFinite({.array = gradient, .tally = tally}, context);
  }
}

}  // namespace attention

namespace {

constexpr std::string_view kWho = "attend backward";

void CheckInput(std::string_view name, const ConstView& array, const attention::Call& call) {
  const Shape& shape = call.output_shape;
  if (array.data() == nullptr || array.shape() != shape) {
    Throw(ErrorCode::kInvalidData, kWho, "{}: given shape {}, expected {}", name,
          array.shape().ToString(), shape.ToString());
  }
  attention::CheckArrayOn(call.device(), array, kWho, name);
  if (call.device().type == DeviceType::kCuda && array.type() != DataType::kF32 &&
      array.type() != call.problem.q.type())
    Throw(ErrorCode::kInvalidData, kWho,
          "{}: given {} for inputs of {}, expected f32 or their type", name, Name(array.type()),
          Name(call.problem.q.type()));
}

void CheckTrace(const AttentionTrace& given, const attention::Call& call,
                const AttentionOptions& options, const Context& context) {
  const auto refuse = [](std::string_view what) {
    Throw(ErrorCode::kInvalidData, kWho, "given the trace of another call: {} differs", what);
  };
  if (internal::Access::IsEmpty(given) || internal::Inside(given).log_sum.empty())
    Throw(ErrorCode::kInvalidData, kWho, "given a trace that no call has filled");
  const attention::Trace& trace = internal::Inside(given);
  const kernels::AttentionProblem& problem = call.problem;
  if (trace.kind != &call.kind) refuse("the kind of attention");
  if (trace.log_sum.device() != call.device()) refuse("the device");
  if (trace.q != problem.q.shape() || trace.k != problem.k.shape() || trace.v != problem.v.shape())
    refuse("a shape");
  if (trace.causal != problem.causal) refuse("causal");
  if (trace.normalize != problem.normalize) refuse("renormalize");
  if (trace.scale != problem.scale) refuse("the scale");
  if (trace.center_keys != call.center_keys || trace.frozen_mean != (call.key_mean != nullptr))
    refuse("key centring");
  if (trace.kind_options != call.kind_options) refuse("an option of the kind");
  if (trace.mask_hash != attention::HashOf(call.marks.mask())) refuse("the key mask");
  if (trace.decay_hash != attention::HashOfNumbers(call.marks.log_decay())) refuse("log_decay");
  if (trace.own == nullptr) return;
  if (const auto what = trace.own->Difference(options, context); !what.empty()) refuse(what);
}

}  // namespace

void AttendBackwardInto(const BackwardInputs& inputs, const AttentionOptions& options,
                        const Context& context, const AttentionTrace* trace,
                        const GradientViews& gradients) {
  const auto& [q, k, v, out, grad_out] = inputs;
  const auto& [grad_q, grad_k, grad_v, grad_log_decay] = gradients;
  const attention::Call call = attention::CheckCall({q, k, v}, options, context);
  if (options.compat != Compat::kNone)
    Throw(ErrorCode::kInvalidOption, kWho, "given compat, which has no gradients");
  CheckInput("out", out, call);
  CheckInput("grad_out", grad_out, call);
  const std::optional<DataType> or_type = attention::OtherType(call);
  std::vector<attention::NamedOutput> outputs = {{"grad_q", grad_q, q.shape(), or_type},
                                                 {"grad_k", grad_k, k.shape(), or_type},
                                                 {"grad_v", grad_v, v.shape(), or_type}};
  if (!grad_log_decay.empty()) {
    if (call.marks.log_decay().empty())
      Throw(ErrorCode::kInvalidOption, kWho,
            "the gradient of log_decay is wanted of a call without one");
    outputs.push_back({"grad_log_decay", grad_log_decay, call.marks.log_decay().shape()});
  }
  attention::CheckOutputs(kWho, outputs,
                          {{"q", q},
                           {"k", k},
                           {"v", v},
                           {"out", out},
                           {"grad_out", grad_out},
                           {"key_mask", options.key_mask},
                           {"log_decay", options.log_decay},
                           {"key_mean", options.key_mean}},
                          {call.OutputType(), call.device()});
  if (grad_q.type() != grad_k.type() || grad_q.type() != grad_v.type())
    Throw(ErrorCode::kInvalidData, kWho,
          "given grad_q {}, grad_k {} and grad_v {}, expected one type", Name(grad_q.type()),
          Name(grad_k.type()), Name(grad_v.type()));
  AttentionTrace own;
  if (trace == nullptr) {
    Tensor again(call.output_shape, call.OutputType(), call.device());
    AttendInto({q, k, v}, options, context, again, {.trace = &own});
    trace = &own;
  } else {
    CheckTrace(*trace, call, options, context);
  }
  const Tally tally(context);
  attention::Backward(call, internal::Inside(*trace),
                      {.out = out.AsRank4(),
                       .grad_out = grad_out.AsRank4(),
                       .grad_q = grad_q.AsRank4(),
                       .grad_k = grad_k.AsRank4(),
                       .grad_v = grad_v.AsRank4(),
                       .grad_log_decay = grad_log_decay},
                      tally.At(), context);
  if (tally.Read()[0].unusable == 0) return;
  attention::ExplainUnusable(call.problem);
  attention::ExplainValues(grad_out, {}, "grad_out");
  Throw(ErrorCode::kInvalidData, kWho, "a gradient exceeds the range of {}", Name(grad_q.type()));
}

AttentionGradients AttendBackward(const BackwardInputs& inputs, const AttentionOptions& options,
                                  const Context& context, const AttentionTrace* trace) {
  const DataType type = options.reference ? DataType::kF64 : DataType::kF32;
  const Device device = inputs.q.device();
  AttentionGradients gradients{Tensor(inputs.q.shape(), type, device),
                               Tensor(inputs.k.shape(), type, device),
                               Tensor(inputs.v.shape(), type, device),
                               {}};
  GradientViews views{gradients.q, gradients.k, gradients.v};
  if (options.log_decay.data() != nullptr) {
    const ConstView q = inputs.q.AsRank4();
    gradients.log_decay = Tensor({q.size(0), q.size(1), q.size(2)}, type, device);
    views.log_decay = gradients.log_decay;
  }
  AttendBackwardInto(inputs, options, context, trace, views);
  return gradients;
}

}  // namespace favor
