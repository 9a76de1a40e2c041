// Decoding with linear attention on a GPU, which is bound by memory: a token of every context joins
// its states and reads them, one launch per layer. of_copy is the time of a copy of the states'
// bytes, which reads and writes each once as well, divided by the time of the token, measured in
// turns in one run.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "core/device.h"
#include "core/device_graph.h"
#include "core/tally.h"
#include "favor/features.h"
#include "features/drawn_features.h"
#include "kernels/linear_attention.h"

namespace favor {
namespace {

using kernels::AttentionProblem;
using kernels::PrefixState;
using kernels::StateTensors;

constexpr Device kGpu{DeviceType::kCuda, 0};
constexpr int64_t kHeads = 8, kDim = 64;
constexpr int kTokens = 20;  // timed at once
constexpr int kRounds = 20;

// Values between −1 and 1 with a long period.
Tensor Values(const Shape& shape) {
  Tensor values(shape);
  for (int64_t i = 0; i < shape.Elements(); ++i)
    values.Data<float>()[i] = static_cast<float>(i * 7919 % 100003) / 50001 - 1;
  return values.To(DataType::kBF16).To(kGpu);
}

// A token of `contexts` sequences in some layers of heads.
class Token {
 public:
  Token(int64_t contexts, int64_t layers, int64_t features, const Context& context)
      : context_(context),
        plan_(FeaturePlan::Draw({.features = features}, kHeads, kDim, /*seed=*/1)),
        rows_(Values({contexts, kHeads, 1, kDim})),
        out_({contexts, kHeads, 1, kDim}, DataType::kBF16, kGpu),
        tally_(context),
        problem_{.q = rows_,
                 .k = rows_,
                 .v = rows_,
                 .batch = contexts,
                 .heads = kHeads,
                 .kv_heads = kHeads,
                 .query_length = 1,
                 .key_length = 1,
                 .dim = kDim,
                 .value_dim = kDim,
                 .causal = true,
                 .scale = 1 / std::sqrt(static_cast<double>(kDim))} {
    for (int64_t layer = 0; layer < layers; ++layer)
      states_.emplace_back(contexts * kHeads, features, kDim, context);
  }

  void Run() const {
    for (const StateTensors& states : states_) {
      kernels::LinearAttention({.call = {.problem = problem_,
                                         .out = out_,
                                         .log_sum = {},
                                         .tally = tally_.At(),
                                         .checks_inputs = true},
                                .heads = {.features = features::ConstantsOf(plan_)},
                                .states = states.views()},
                               context_);
    }
  }
  int64_t StateBytes() const {
    int64_t bytes = 0;
    for (const StateTensors& states : states_) bytes += states.Bytes();
    return bytes;
  }

 private:
  const Context& context_;
  FeaturePlan plan_;
  Tensor rows_;
  mutable Tensor out_;
  Tally tally_;
  AttentionProblem problem_;
  std::vector<StateTensors> states_;
};

void DecodeToken(benchmark::State& state) {
  if (ListGpus().empty()) return state.SkipWithError("no GPU on this machine");
  const int64_t layers = state.range(1);
  const Context context({.device = kGpu});
  const Token token(state.range(0), layers, state.range(2), context);
  token.Run();  // sends constants, which a graph cannot
  const DeviceGraph graph(context, [&] { token.Run(); });
  const int64_t bytes = token.StateBytes();
  const Tensor from({bytes / 4}, DataType::kF32, kGpu), to({bytes / 4}, DataType::kF32, kGpu);
  const DeviceGraph copy(context, [&] {
    QueueCopy(const_cast<float*>(to.Data<float>()), from.Data<float>(), bytes, context);
  });
  DeviceStopwatch watch(context);
  const auto seconds_of = [&](const DeviceGraph& work) {
    watch.Start();
    for (int call = 0; call < kTokens; ++call) work.Launch();
    watch.Stop();
    return watch.Seconds() / kTokens;
  };
  seconds_of(copy);  // warm-up
  seconds_of(graph);
  double copy_seconds = 0, seconds = 0;
  for (auto _ : state) {
    copy_seconds += seconds_of(copy);
    const double of_token = seconds_of(graph);
    seconds += of_token;
    state.SetIterationTime(of_token);
  }
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["of_copy"] = copy_seconds / seconds;
  state.counters["copies"] = seconds / copy_seconds;
  state.counters["us/layer"] = 1e6 * seconds / rounds / static_cast<double>(layers);
  state.counters["TB/s"] = 2 * static_cast<double>(bytes) * rounds / seconds / 1e12;
  state.counters["state_MB"] = static_cast<double>(bytes) / 1e6;
}

BENCHMARK(DecodeToken)
    ->ArgNames({"contexts", "layers", "features"})
    ->Args({1, 6, 256})
    ->Args({4, 6, 256})
    ->Args({16, 6, 256})
    ->Args({64, 6, 256})
    ->Args({64, 6, 64})
    ->Args({64, 6, 1024})
    ->UseManualTime()
    ->Iterations(kRounds)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace favor
