#include "attention/linear_heads.h"

#include <cmath>
#include <utility>

#include "core/element.h"
#include "core/error_text.h"
#include "features/plan.h"

namespace favor::attention {
namespace {

// Sums over the existing rows of (x − mean)·scale: Σ‖x‖² and Σx, in double.
struct RowStatistics {
  RowStatistics(const ConstView& rows, const float* mask, const std::vector<double>& mean,
                double scale)
      : sum(static_cast<size_t>(rows.size(1)), 0.0) {
    for (int64_t row = 0; row < rows.size(0); ++row) {
      if (mask != nullptr && mask[row] == 0) continue;
      count += 1;
      for (size_t i = 0; i < sum.size(); ++i) {
        const double x =
            (ElementAt(rows, row, static_cast<int64_t>(i)) - (mean.empty() ? 0 : mean[i])) * scale;
        square += x * x;
        sum[i] += x;
      }
    }
  }

  double count = 0, square = 0;
  std::vector<double> sum;
};

// mean_ij ‖x_i + y_j‖² over queries and existing keys.
double MeanSquareOfSum(const RowStatistics& q, const RowStatistics& k) {
  double dot = 0;
  for (size_t i = 0; i < q.sum.size(); ++i) dot += q.sum[i] * k.sum[i];
  return q.square / q.count + k.square / k.count + 2 * dot / (q.count * k.count);
}

}  // namespace

FeaturePlan ChoosePlan(const Problem& problem, const AttentionOptions& options,
                       const Context& context) {
  if (!options.plan)
    return FeaturePlan::Draw(options.features, problem.heads, problem.dim, context.seed());
  if (options.plan->heads() != problem.heads || options.plan->dim() != problem.dim) {
    Throw(ErrorCode::kInvalidData, "attend",
          "given a plan of {} heads of dim {} for {} heads of dim {}", options.plan->heads(),
          options.plan->dim(), problem.heads, problem.dim);
  }
  return *options.plan;
}

void CheckCentring(const FeaturePlan& plan) {
  if (plan.map().kernel != KernelFamily::kSoftmax) {
    Throw(ErrorCode::kInvalidOption, "key centring",
          "given the map '{}', but only the softmax kernel is unchanged by it", plan.map().name);
  }
}

std::vector<double> FrozenMean(const ConstView& mean, int64_t heads, int64_t dim) {
  const bool fits =
      (mean.rank() == 1 && mean.size(0) == dim) ||
      (mean.rank() == 2 && mean.size(0) > 0 && heads % mean.size(0) == 0 && mean.size(1) == dim);
  if (!fits) {
    Throw(ErrorCode::kInvalidData, "key mean",
          "given shape {}, expected [{}] or a row of {} for each head", mean.shape().ToString(),
          dim, dim);
  }
  if (!AllFinite(mean))
    Throw(ErrorCode::kInvalidData, "key mean", "given NaN or infinity, expected finite values");
  std::vector<double> values;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t row = mean.rank() == 1 ? 0 : head / (heads / mean.size(0)) * mean.stride(0);
    for (int64_t i = 0; i < dim; ++i) {
      values.push_back(
          LoadElement(mean.data(), mean.type(), row + i * mean.stride(mean.rank() - 1)));
    }
  }
  return values;
}

int64_t HeadMaker::HeadBytes() const {
  return data_a_ ? plan_.features() * (plan_.dim() + 3) * 12 : 0;
}

HeadMaker::HeadMaker(const Problem& problem, const AttentionOptions& options,
                     const Context& context)
    : problem_(problem), options_(options), plan_(ChoosePlan(problem, options, context)) {
  if (!(problem.scale > 0)) {
    Throw(ErrorCode::kInvalidOption, "scale",
          "given {}, expected a number above 0 for linear attention", problem.scale);
  }
  const bool frozen_mean = options.key_mean.data() != nullptr;
  if (frozen_mean && !options.center_keys) {
    Throw(ErrorCode::kInvalidOption, "key mean", "given a mean, but keys are not to be centred");
  }
  if (options.center_keys) CheckCentring(plan_);
  if (problem.causal && options.center_keys && !frozen_mean) {
    Throw(ErrorCode::kInvalidOption, "key centring",
          "the mean of a causal call's own keys would leak the future: give a frozen mean "
          "(--center-keys MEAN.npy)");
  }
  if (frozen_mean) frozen_mean_ = FrozenMean(options.key_mean, problem.heads, problem.dim);
  data_a_ =
      plan_.impl().head_features[0].map->traits->info.takes_a && plan_.options().oprf_a.empty();
  if (data_a_ && problem.causal) {
    Throw(ErrorCode::kInvalidOption, "oprf",
          "an A from a causal call's own data would leak the future: give a frozen one (--oprf-a)");
  }
}

HeadConstants HeadMaker::Constants(int64_t group) const {
  const double sqrt_scale = std::sqrt(problem_.scale);
  const kernels::HeadFeatures& features = plan_.impl().Head(problem_.Head(group));
  // The plan owns it; a record may outlive the call.
  HeadConstants head{.features = {std::make_shared<const FeaturePlan>(plan_), &features}};
  std::vector<double> mean;
  if (!frozen_mean_.empty()) {
    const auto first = frozen_mean_.begin() + problem_.Head(group) * problem_.dim;
    mean.assign(first, first + problem_.dim);
  } else if (options_.center_keys) {
    const RowStatistics keys(problem_.Keys(group), problem_.Mask(group), {}, 1);
    for (const double sum : keys.sum) mean.push_back(keys.count > 0 ? sum / keys.count : 0);
  }
  if (data_a_) {
    const RowStatistics q(problem_.Queries(group), nullptr, {}, sqrt_scale);
    const RowStatistics k(problem_.Keys(group), problem_.Mask(group), mean, sqrt_scale);
    auto own = std::make_shared<kernels::HeadFeatures>(features);
    if (k.count > 0) kernels::SetOprfA(OptimalOprfA(MeanSquareOfSum(q, k), problem_.dim), *own);
    head.features = own;
  }
  if (!mean.empty()) head.mean = std::make_shared<const std::vector<double>>(std::move(mean));
  return head;
}

kernels::LinearHead MakeLinearHead(const Problem& problem, int64_t group,
                                   const HeadConstants& constants, const Context& context) {
  const double* mean = constants.mean == nullptr ? nullptr : constants.mean->data();
  const double sqrt_scale = std::sqrt(problem.scale);
  return {
      .features = *constants.features,
      .context = context,
      .queries = {.queries = problem.Queries(group), .sqrt_scale = sqrt_scale, .key_mean = mean},
      .keys = {.keys = problem.Keys(group),
               .values = problem.Values(group),
               .mask = problem.Mask(group),
               .mean = mean,
               .sqrt_scale = sqrt_scale},
      .chunk = problem.chunk};
}

}  // namespace favor::attention
