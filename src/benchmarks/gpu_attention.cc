#include "benchmarks/gpu_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "attention/attend.h"
#include "benchmarks/random_tensor.h"
#include "core/device_graph.h"
#include "core/error_text.h"

namespace favor::benchmarks {
namespace {

// Work between two events: so long that what an event takes does not count.
constexpr double kSecondsOfSample = 2e-3;
constexpr int64_t kMostCalls = 100;  // of one sample

// The median time of one call of `work`, which queues work in the context.
double MedianSeconds(const Context& context, int64_t rounds, const std::function<void()>& work) {
  DeviceStopwatch watch(context);
  const auto sample = [&](int64_t calls) {
    watch.Start();
    for (int64_t call = 0; call < calls; ++call) work();
    watch.Stop();
    return watch.Seconds() / static_cast<double>(calls);
  };
  sample(1);  // warms
  const double about = sample(3);
  const auto calls = static_cast<int64_t>(
      std::clamp(std::ceil(kSecondsOfSample / about), 1.0, static_cast<double>(kMostCalls)));
  std::vector<double> times;
  for (int64_t i = 0; i < GpuSamples(rounds); ++i) times.push_back(sample(calls));
  std::ranges::nth_element(times, times.begin() + static_cast<int64_t>(times.size()) / 2);
  return times[times.size() / 2];
}

}  // namespace

GpuAttention::GpuAttention(const AttentionBenchOptions& options, int64_t length,
                           const Context& context)
    : context_(context), backward_(options.backward) {
  const Shape rows{options.batch, options.heads, length, options.dim},
      values{options.batch, options.heads, length, options.ValueDim()};
  const auto random = [&](const Shape& shape, double deviation, const char* name) {
    return RandomNormal(shape, deviation, context.seed(), name)
        .To(options.type)
        .To(context.device());
  };
  const auto zeros = [&](const Shape& shape) {
    return Tensor(shape, options.type, context.device());
  };
  q_ = random(rows, options.deviation, "bench q");
  k_ = random(rows, options.deviation, "bench k");
  v_ = random(values, 1, "bench v");
  out_ = zeros(values);
  if (!backward_) return;
  grad_out_ = random(values, 1, "bench gradient");
  grad_q_ = zeros(rows);
  grad_k_ = zeros(rows);
  grad_v_ = zeros(values);
}

GpuAttention::Cost GpuAttention::CostOf(const AttentionOptions& options, int64_t rounds) {
  const attention::Call call = attention::CheckCall({q_, k_, v_}, options, context_);
  const Tally tally(context_);
  Tensor grad_log_decay;
  if (backward_ && options.log_decay.data() != nullptr)
    grad_log_decay =
        Tensor({q_.shape()[0], q_.shape()[1], q_.shape()[2]}, DataType::kF32, context_.device());
  const auto run = [&](attention::Trace& trace) {
    attention::Forward(
        call, {.out = out_, .trace = backward_ ? &trace : nullptr, .tally = tally.At()}, context_);
    if (!backward_) return;
    attention::Backward(call, trace,
                        {.out = out_,
                         .grad_out = grad_out_,
                         .grad_q = grad_q_,
                         .grad_k = grad_k_,
                         .grad_v = grad_v_,
                         .grad_log_decay = grad_log_decay},
                        tally.At(), context_);
  };
  attention::Trace first(call), recorded(call);
  // Sends constants of the plan and loads kernels, which a graph cannot.
  const int64_t scratch = ScratchPeakOf(context_, [&] { run(first); });
  if (tally.Read()[0].unusable > 0)
    Throw(ErrorCode::kInvalidData, "bench", "given results that are not finite");
  const DeviceGraph graph(context_, [&] { run(recorded); });
  return {.seconds = MedianSeconds(context_, rounds, [&] { graph.Launch(); }),
          .extra_bytes = scratch + (backward_ ? first.Bytes() : 0)};
}

double GpuCopyRate(int64_t rounds, const Context& context) {
  constexpr int64_t kBytes = int64_t{1} << 29;  // ten times what a cache holds
  const Tensor from({kBytes / 4}, DataType::kF32, context.device());
  Tensor to({kBytes / 4}, DataType::kF32, context.device());
  const double seconds = MedianSeconds(
      context, rounds, [&] { QueueCopy(to.view().data(), from.view().data(), kBytes, context); });
  return 2 * static_cast<double>(kBytes) / seconds;
}

int64_t GpuSamples(int64_t rounds) { return 5 * rounds; }

std::string CopyText(const std::string& gpu, double copy_rate) {
  return fmt::format("{}, a copy moves {:.2f} TB/s in this run.", gpu, copy_rate / 1e12);
}

}  // namespace favor::benchmarks
