#include "kernels/head_rows.h"

#include <algorithm>
#include <cmath>

namespace favor::kernels {

LinearHead HeadOf(const AttentionProblem& problem, const LinearHeads& heads, int64_t group,
                  const Context& context) {
  const double* mean = heads.KeyMean(problem, group);
  const double sqrt_scale = std::sqrt(problem.scale);
  LinearHead head{
      .features = heads.Features(problem, group), .context = context, .chunk = problem.chunk};
  if (!problem.q.empty()) {
    head.queries = {
        .queries = problem.OfQueries(problem.q, group), .sqrt_scale = sqrt_scale, .key_mean = mean};
  }
  if (!problem.k.empty()) {
    head.keys = {.keys = problem.OfKeys(problem.k, group),
                 .values = problem.OfKeys(problem.v, group),
                 .mask = problem.Mask(group),
                 .mean = mean,
                 .sqrt_scale = sqrt_scale,
                 .log_decay = problem.LogDecay(group)};
  }
  return head;
}

ExactHead HeadOf(const AttentionProblem& problem, int64_t group) {
  return {.queries = problem.OfQueries(problem.q, group),
          .keys = problem.OfKeys(problem.k, group),
          .values = problem.OfKeys(problem.v, group),
          .mask = problem.Mask(group),
          .scale = problem.scale,
          .causal = problem.causal,
          .before = problem.before,
          .window = problem.window};
}

HeadOutput OutputOf(const LinearArguments& a, int64_t group) {
  HeadOutput out = OutputOf(a.call, group);
  out.least_denominator = a.heads.features.least_denominator();
  return out;
}

HeadOutput OutputOf(const AttentionArguments& call, int64_t group) {
  if (!call.parts.log_scale.empty()) {
    return {.log_scale = call.parts.log_scale.At(group).Data<double>(),
            .numerator = call.parts.numerator.At(group).Data<double>(),
            .denominator = call.parts.denominator.At(group).Data<double>()};
  }
  return {.output = call.problem.OfQueries(call.out, group),
          .normalize = call.problem.normalize,
          .log_sum = call.LogSum(group)};
}

HeadGradients Turns::Rows(const AttentionGradients& call, int64_t turn, int64_t index) const {
  const int64_t group = Group(turn, index);
  const AttentionProblem& problem = call.problem;
  const auto part_of = [](const View& all, const auto& part) { return all.empty() ? all : part(); };
  return {
      .grad_output = problem.OfQueries(call.grad_out, group),
      .log_sum = call.log_sum.At(group).Data<double>(),
      .delta = call.delta.At(group).Data<double>(),
      .normalized = problem.normalize,
      .bounded = call.bounded,
      .grad_queries = part_of(call.grad_q, [&] { return problem.OfQueries(call.grad_q, group); }),
      .grad_keys = part_of(call.grad_k, [&] { return problem.OfKeys(call.grad_k, group); }),
      .grad_values = problem.OfKeys(call.grad_v, group),
      .grad_log_decay = part_of(
          call.grad_log_decay,
          [&] {
            return call.grad_log_decay.At(problem.Batch(group)).Range(0, problem.Head(group), 1);
          }),
      .add_to_keys = call.add || turn > 0,
      .add_to_queries = call.add};
}

}  // namespace favor::kernels
