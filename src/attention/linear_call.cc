#include "attention/linear_call.h"

#include "attention/compat.h"
#include "core/device_work.h"
#include "core/error_text.h"
#include "kernels/key_statistics.h"

namespace favor::attention {
namespace {

using features::ConstantsOf;
using kernels::AttentionProblem;

bool UsesDataForA(const FeaturePlan& plan) {
  return ConstantsOf(plan).map().traits->info.takes_a && plan.options().oprf_a.empty();
}

}  // namespace

void CompleteLinear(const AttentionOptions& options, const Context& context, Call& call) {
  const AttentionProblem& problem = call.problem;
  if (options.plan &&
      (options.plan->heads() != problem.heads || options.plan->dim() != problem.dim)) {
    Throw(ErrorCode::kInvalidData, "attend",
          "given a plan of {} heads of dim {} for {} heads of dim {}", options.plan->heads(),
          options.plan->dim(), problem.heads, problem.dim);
  }
  call.plan = options.plan
                  ? *options.plan
                  : FeaturePlan::Draw(options.features, problem.heads, problem.dim, context.seed());
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
  if (frozen_mean)
    call.key_mean = std::make_shared<const Tensor>(
        SendTensor(FrozenMean(options.key_mean, problem.heads, problem.dim), context));
  if (problem.causal && UsesDataForA(*call.plan)) {
    Throw(ErrorCode::kInvalidOption, "oprf",
          "an A from a causal call's own data would leak the future: give a frozen one (--oprf-a)");
  }
}

LinearTrace::LinearTrace(const Call& call, bool keeps_states, const Context& context,
                         std::unique_ptr<KindTrace> earlier)
    : plan_(*call.plan), owns_plan_(call.owns_plan) {
  const AttentionProblem& problem = call.problem;
  if (call.key_mean != nullptr) {
    key_mean_ = call.key_mean;
  } else if (call.center_keys) {
    auto mean = std::make_shared<Tensor>(Shape{problem.batch, problem.heads, problem.dim},
                                         DataType::kF64, call.device());
    kernels::FindKeyMeans({.problem = problem, .mean = *mean}, context);
    key_mean_ = std::move(mean);
  }
  if (UsesDataForA(plan_)) {
    Tensor of_plan({problem.batch, problem.heads}, DataType::kF64);
    for (int64_t group = 0; group < problem.Groups(); ++group)
      of_plan.Data<double>()[group] = plan_.OprfA(problem.Head(group));
    oprf_a_ = SendTensor(std::move(of_plan), context);
    kernels::FindOprfA({.problem = problem, .key_mean = Mean(problem), .oprf_a = oprf_a_}, context);
  }
  if (!keeps_states) return;
  auto* trace = dynamic_cast<LinearTrace*>(earlier.get());
  if (problem.causal) {
    keeps_segments_ = true;
    if (trace != nullptr) kept_.memory = std::move(trace->kept_.memory);
    return;
  }
  if (trace != nullptr) states_ = std::move(trace->states_);
  const int64_t groups = problem.Groups(), width = plan_.width();
  if (!states_.Restart(groups, width, problem.value_dim, context))
    states_ = kernels::StateTensors(groups, width, problem.value_dim, context);
}

int64_t LinearTrace::Bytes() const {
  return (key_mean_ == nullptr ? 0 : key_mean_->Bytes()) + oprf_a_.Bytes() + states_.Bytes() +
         kept_.memory.Bytes() + (owns_plan_ ? ConstantsOf(plan_).Bytes() : 0);
}

std::string_view LinearTrace::Difference(const AttentionOptions& options,
                                         const Context& context) const {
  if (options.plan) return ConstantsOf(*options.plan).Equals(ConstantsOf(plan_)) ? "" : "the plan";
  if (!(options.features == plan_.options())) return "an option of features";
  return internal::Inside(plan_).seed == context.seed() ? "" : "the seed of ω";
}

ConstView LinearTrace::Mean(const AttentionProblem& problem) const {
  if (key_mean_ == nullptr) return {};
  const ConstView mean = *key_mean_;
  return mean.size(0) != problem.batch ? ForEveryBatch(mean, problem.batch) : mean;
}

double ProductColumns(const CacheShape& shape, const AttentionOptions& options) {
  const kernels::MapEntry* map = kernels::FindMap(options.features.map);
  const int64_t columns = options.plan ? options.plan->features()
                          : map != nullptr && map->IsRowMap()
                              ? features::WidthOf(options.features, shape.dim)
                              : options.features.features;
  return static_cast<double>(columns);
}

}  // namespace favor::attention
