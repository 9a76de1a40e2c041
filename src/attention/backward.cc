// AttendBackward: checks, the record, and the choice of the kind.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "attention/check_outputs.h"
#include "attention/kinds.h"
#include "attention/record.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/parallel.h"

namespace favor {
namespace {

constexpr std::string_view kWho = "attend backward";
constexpr int64_t kDeltaRows = 4096;  // rows of a task

void CheckInput(std::string_view name, const ConstView& array, const Shape& shape) {
  if (array.data() == nullptr || array.shape() != shape) {
    Throw(ErrorCode::kInvalidData, kWho, "{}: given shape {}, expected {}", name,
          array.shape().ToString(), shape.ToString());
  }
  if (array.device().kind != DeviceKind::kCpu)
    Throw(ErrorCode::kUnavailable, kWho, "{}: given an array on {}, attention runs on the cpu",
          name, Name(array.device()));
}

bool HasMean(const AttentionOptions& options) { return options.key_mean.data() != nullptr; }

void CheckRecord(const AttentionRecord::Impl* given, const attention::Problem& problem,
                 const BackwardInputs& inputs, const AttentionOptions& options) {
  const auto refuse = [](std::string_view what) {
    Throw(ErrorCode::kInvalidData, kWho,
          "the record is of another call than the one given: {} differs", what);
  };
  if (given == nullptr || given->log_sum.empty())
    Throw(ErrorCode::kInvalidData, kWho, "given a record that no call has filled");
  const AttentionRecord::Impl& record = *given;
  if (record.kind != &problem.kind) refuse("the kind of attention");
  if (record.q != inputs.q.shape() || record.k != inputs.k.shape() || record.v != inputs.v.shape())
    refuse("a shape");
  if (record.causal != options.causal) refuse("causal");
  if (record.renormalize != options.renormalize) refuse("renormalize");
  if (record.scale != problem.scale) refuse("the scale");
  if (record.centred != options.center_keys || record.frozen_mean != HasMean(options))
    refuse("key centring");
  if (record.mask_hash != attention::HashOf(problem.mask)) refuse("the key mask");
  if (problem.kind.takes_plan && options.plan) {
    const kernels::HeadFeatures& features = *record.heads[0].features;
    if (options.plan->map().name != features.map->traits->info.name ||
        options.plan->features() != features.omega.features)
      refuse("the plan");
  }
}

double Dot(const ConstView& a, const ConstView& b, int64_t row) {
  const int64_t columns = a.size(1);
  if (a.type() != DataType::kF32 || b.type() != DataType::kF32 || a.stride(1) != 1 ||
      b.stride(1) != 1) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += ElementAt(a, row, i) * ElementAt(b, row, i);
    return sum;
  }
  const float* x = static_cast<const float*>(a.data()) + row * a.stride(0);
  const float* y = static_cast<const float*>(b.data()) + row * b.stride(0);
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= columns; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * y[i + lane];
  }
  for (; i < columns; ++i) sums[0] += static_cast<double>(x[i]) * y[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// −dO·O of every row.
std::vector<double> Deltas(const attention::BackwardCall& call) {
  const attention::Problem& problem = call.problem;
  const int64_t length = problem.query_length, tasks = (length + kDeltaRows - 1) / kDeltaRows;
  std::vector<double> delta(static_cast<size_t>(problem.Groups() * length), 0.0);
  if (!call.options.renormalize) return delta;
  ParallelFor(call.context, problem.Groups() * tasks, [&](int64_t task) {
    const int64_t group = task / tasks, begin = task % tasks * kDeltaRows;
    const auto rows = [&](const ConstView& array) {
      return array.At(problem.Batch(group)).At(problem.Head(group));
    };
    const ConstView out = rows(call.out), grad_out = rows(call.grad_out);
    for (int64_t row = begin; row < std::min(length, begin + kDeltaRows); ++row)
      delta[static_cast<size_t>(group * length + row)] = -Dot(grad_out, out, row);
  });
  return delta;
}

}  // namespace

namespace attention {

kernels::GradientRows BackwardCall::Rows(int64_t turn, int64_t index) const {
  const int64_t group = Group(turn, index), batch = problem.Batch(group),
                head = problem.Head(group), kv_head = problem.KvHead(group);
  const int64_t first = group * problem.query_length;
  return {.grad_output = grad_out.At(batch).At(head),
          .log_sum = record.log_sum.data() + first,
          .delta = delta.data() + first,
          .normalized = options.renormalize,
          .grad_queries = grad_q.At(batch).At(head),
          .grad_keys = grad_k.At(batch).At(kv_head),
          .grad_values = grad_v.At(batch).At(kv_head),
          .add_to_keys = turn > 0};
}

}  // namespace attention

void AttendBackwardInto(const BackwardInputs& inputs, const AttentionOptions& options,
                        const Context& context, const AttentionRecord* record,
                        const GradientViews& gradients) {
  const auto& [q, k, v, out, grad_out] = inputs;
  const auto& [grad_q, grad_k, grad_v] = gradients;
  const attention::Problem problem = attention::CheckProblem(q, k, v, options);
  if (options.compat != Compat::kNone)
    Throw(ErrorCode::kInvalidOption, kWho, "given compat, which has no gradients");
  CheckInput("out", out, problem.output_shape);
  CheckInput("grad_out", grad_out, problem.output_shape);
  attention::CheckOutputs(
      kWho,
      {{"grad_q", grad_q, q.shape()}, {"grad_k", grad_k, k.shape()}, {"grad_v", grad_v, v.shape()}},
      {{"q", q},
       {"k", k},
       {"v", v},
       {"out", out},
       {"grad_out", grad_out},
       {"key_mask", options.key_mask},
       {"key_mean", options.key_mean}},
      options.reference);
  AttentionRecord own;
  if (record == nullptr) {
    Tensor again(problem.output_shape, options.reference ? DataType::kF64 : DataType::kF32);
    AttendInto({q, k, v}, options, context, again, {.record = &own});
    record = &own;
  } else {
    CheckRecord(record->impl(), problem, inputs, options);
  }
  attention::BackwardCall call{.problem = problem,
                               .options = options,
                               .context = context,
                               .record = *record->impl(),
                               .out = out.AsRank4(),
                               .grad_out = grad_out.AsRank4(),
                               .grad_q = grad_q.AsRank4(),
                               .grad_k = grad_k.AsRank4(),
                               .grad_v = grad_v.AsRank4()};
  call.delta = Deltas(call);
  const bool finite =
      std::all_of(call.delta.begin(), call.delta.end(), [](double x) { return std::isfinite(x); });
  kernels::RowCounts counts;
  if (!finite) counts.unusable = 1;
  counts += problem.kind.backward(call);
  // The reference's gradients are looked at after.
  const bool looked = problem.kind.checks_results && !options.reference;
  if (counts.unusable == 0 &&
      (looked || (AllFinite(grad_q) && AllFinite(grad_k) && AllFinite(grad_v))))
    return;
  attention::CheckRanges(problem);
  attention::CheckValueRange(grad_out, {}, "grad_out");
  Throw(ErrorCode::kInvalidData, kWho, "a gradient exceeds the range of {}", Name(grad_q.type()));
}

AttentionGradients AttendBackward(const BackwardInputs& inputs, const AttentionOptions& options,
                                  const Context& context, const AttentionRecord* record) {
  const DataType type = options.reference ? DataType::kF64 : DataType::kF32;
  AttentionGradients gradients{Tensor(inputs.q.shape(), type), Tensor(inputs.k.shape(), type),
                               Tensor(inputs.v.shape(), type)};
  AttendBackwardInto(inputs, options, context, record, {gradients.q, gradients.k, gradients.v});
  return gradients;
}

}  // namespace favor
