// Exact attention on a GPU: tensor cores for arrays of 16 bits, f32 arithmetic for the others.
#include "kernels/exact_attention.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/cuda/exact/call.cuh"
#include "kernels/cuda/exact/launch.cuh"

namespace favor::kernels::cuda {
namespace {

constexpr int64_t kMostColumns = 256;
constexpr int64_t kEverywhere = int64_t{1} << 40;  // beyond any length

template <class AnyView>
auto ArrayOf(const AnyView& view) {
  const int64_t item = ItemBytes(view.type()), address = reinterpret_cast<int64_t>(view.data());
  const auto aligned = [item](int64_t elements) { return elements * item % 16 == 0; };
  const bool vectors = address % 16 == 0 && aligned(view.stride(0)) && aligned(view.stride(1)) &&
                       aligned(view.stride(2)) && aligned(view.size(3));
  return ExactArray<std::remove_pointer_t<typename AnyView::Pointer>>{
      view.data(), view.type(), vectors, view.stride(0), view.stride(1), view.stride(2)};
}

void CheckProblem(const AttentionProblem& problem) {
  const auto refuse = [](const std::string& text) {
    throw Error(ErrorCode::kUnavailable, kExactName, text);
  };
  const DataType type = problem.q.type();
  if (type == DataType::kF64 || problem.k.type() != type || problem.v.type() != type) {
    refuse("given " + std::string(Name(type)) + ", " + std::string(Name(problem.k.type())) +
           " and " + std::string(Name(problem.v.type())) + " arrays on " +
           Name(problem.q.device()) + ", expected one of f32, f16 and bf16 for all");
  }
  if (std::max(problem.dim, problem.value_dim) > kMostColumns) {
    refuse("given rows of " + std::to_string(std::max(problem.dim, problem.value_dim)) +
           " elements on " + Name(problem.q.device()) + ", expected at most " +
           std::to_string(kMostColumns));
  }
}

void CheckResult(const AttentionProblem& problem, const ConstView& result) {
  const DataType type = result.type();
  if (type != DataType::kF32 && type != problem.q.type()) {
    throw Error(ErrorCode::kUnavailable, kExactName,
                "given " + std::string(Name(type)) + " results on " + Name(result.device()) +
                    ", expected f32 or " + std::string(Name(problem.q.type())));
  }
}

ExactProblem ProblemOf(const AttentionProblem& problem, TallyEntry* tally) {
  CheckProblem(problem);
  const bool near = problem.window >= 0;
  const auto scale = static_cast<float>(problem.scale);
  return {.q = ArrayOf(problem.q),
          .k = ArrayOf(problem.k),
          .v = ArrayOf(problem.v),
          .mask = problem.mask.empty() ? nullptr : problem.mask.Data<float>(),
          .mask_batch_stride = problem.mask.stride(0),
          .mask_head_stride = problem.mask.stride(1),
          .groups = problem.Groups(),
          .heads = problem.heads,
          .kv_heads = problem.kv_heads,
          .query_length = problem.query_length,
          .key_length = problem.key_length,
          .dim = static_cast<int>(problem.dim),
          .value_dim = static_cast<int>(problem.value_dim),
          .band = {.low = near ? problem.before - problem.window : -kEverywhere,
                   .high = problem.causal ? problem.before
                           : near         ? problem.before + problem.window
                                          : kEverywhere},
          .normalize = problem.normalize,
          .sign = scale > 0   ? 1.0f
                  : scale < 0 ? -1.0f
                              : 0.0f,
          .scale_log2 = scale == 0 ? 1.0f : static_cast<float>(std::fabs(problem.scale) / kLn2),
          .scale = scale,
          .tally = tally};
}

// Its largest block tells which code was loaded.
constexpr int kProbeThreads = 256;
__global__ void __launch_bounds__(kHasWarpGroups ? kProbeThreads : kProbeThreads / 2) Probe() {}

}  // namespace

bool HasWarpGroups() {
  cudaFuncAttributes attributes;
  Check(kExactName, cudaFuncGetAttributes(&attributes, Probe));
  return attributes.maxThreadsPerBlock == kProbeThreads;
}

namespace {

// Gradients of rows that are not normalised multiply weights of any size, which f16 cannot hold.
bool HasTensorCores(const ExactProblem& problem, bool bounded) {
  return problem.q.type != DataType::kF32 && (bounded || problem.q.type == DataType::kBF16) &&
         std::max(problem.dim, problem.value_dim) <= (HasWarpGroups() ? 256 : 128);
}

}  // namespace

void ExactAttention(const AttentionArguments& a, const Context& context) {
  ExactForward forward{.problem = ProblemOf(a.problem, a.tally), .out = ArrayOf(a.out)};
  if (a.parts.log_scale.empty()) CheckResult(a.problem, a.out);
  if (!a.log_sum.empty()) {
    forward.log_sum = a.log_sum.Data<float>();
    forward.log_sum_stride = a.log_sum.stride(0);
  }
  if (!a.parts.log_scale.empty()) {
    forward.log_scale = a.parts.log_scale.Data<double>();
    forward.log_scale_stride = a.parts.log_scale.stride(0);
    forward.numerator = a.parts.numerator.Data<double>();
    forward.numerator_stride = a.parts.numerator.stride(0);
    forward.denominator = a.parts.denominator.Data<double>();
    forward.denominator_stride = a.parts.denominator.stride(0);
  }
  if (a.problem.Groups() * a.problem.query_length * a.problem.value_dim == 0) return;
  const bool tensor = HasTensorCores(forward.problem, /*bounded=*/true);
  (!tensor                                     ? ExactForwardScalar
   : forward.problem.q.type == DataType::kBF16 ? ExactForwardBf16
                                               : ExactForwardF16)(forward, context);
}

void ExactAttentionBackward(const AttentionGradients& a, const Context& context) {
  CheckResult(a.problem, a.grad_v);
  const bool bounded = a.bounded && a.problem.normalize;
  ExactBackward backward{.problem = ProblemOf(a.problem, a.tally),
                         .grad_out = ArrayOf(a.grad_out),
                         .log_sum = a.log_sum.Data<float>(),
                         .delta = a.delta.Data<float>(),
                         .log_sum_stride = a.log_sum.stride(0),
                         .delta_stride = a.delta.stride(0),
                         .bounded = bounded,
                         .grad_q = ArrayOf(a.grad_q),
                         .grad_k = ArrayOf(a.grad_k),
                         .grad_v = ArrayOf(a.grad_v)};
  const bool tensor =
      HasTensorCores(backward.problem, bounded) && a.grad_out.type() == a.problem.q.type();
  (!tensor                                      ? ExactBackwardScalar
   : backward.problem.q.type == DataType::kBF16 ? ExactBackwardBf16
                                                : ExactBackwardF16)(backward, context);
}

}  // namespace favor::kernels::cuda
