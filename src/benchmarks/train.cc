#include "benchmarks/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "attention/kind.h"
#include "benchmarks/attention.h"
#include "benchmarks/peak_memory.h"
#include "benchmarks/sgemm.h"
#include "core/device.h"
#include "core/operation_times.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "favor/random.h"
#include "models/heads.h"

namespace favor::benchmarks {
namespace {

// Tokens drawn at random; the target of each is the next one.
class Noise : public Dataset {
 public:
  explicit Noise(int64_t vocab) : vocab_(vocab) {}

  int64_t vocab() const override { return vocab_; }
  int64_t classes() const override { return 0; }
  int64_t Length(int64_t asked) const override { return asked; }
  Batch TrainBatch(const BatchRequest& request) const override {
    const RandomStream stream =
        RandomStream(0, "noise").Child(static_cast<uint64_t>(request.index));
    Batch batch{.batch = request.batch, .length = request.length};
    const int64_t tokens = request.batch * request.length;
    for (int64_t i = 0; i < tokens; ++i) {
      batch.tokens.push_back(static_cast<int32_t>(stream.Uniform(static_cast<uint64_t>(i)) *
                                                  static_cast<double>(vocab_)));
    }
    batch.targets = batch.tokens;
    return batch;
  }
  int64_t Batches(Split, int64_t, int64_t) const override { return 1; }
  Batch EvalBatch(Split, const BatchRequest& request) const override { return TrainBatch(request); }

 private:
  int64_t vocab_;
};

RunConfig RunOf(const TrainBenchOptions& options, int64_t length) {
  RunConfig run{.task = options.model.causal ? Task::kCausal : Task::kMasked,
                .model = options.model};
  run.training.batch = options.batch;
  run.training.length = length;
  run.training.recompute = options.recompute;
  run.training.dropout = options.dropout;
  if (run.model.positions == Positions::kLearned) run.model.max_length = length;
  return run;
}

// One step, operation by operation.
void MeasureOperations(Trainer& trainer, const Context& context, TrainMeasurement& row) {
  OperationTimes times(context);
  const Stopwatch watch;
  trainer.Step();
  row.timed_seconds = watch.Seconds();
  row.operations = times.Sums();
  std::ranges::stable_sort(row.operations, std::greater(), &OperationTime::seconds);
  row.shares = SharesOf(row.operations, row.timed_seconds);
}

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// What a run takes of the memory of the context's device: at its peak on the CPU, and on a GPU what
// it has taken once `work` is done.
std::optional<int64_t> MemoryOf(const Context& context, const std::function<void()>& work) {
  const Device device = context.device();
  if (device.type == DeviceType::kCpu) return PeakExtraBytes(work);
  const int64_t before = FreeBytesOf(device);
  work();
  return before - FreeBytesOf(device);
}

}  // namespace

TrainMeasurement::Shares SharesOf(const std::vector<OperationTime>& operations, double step) {
  TrainMeasurement::Shares shares{.rest = 1};
  for (const OperationTime& operation : operations) {
    const std::string& name = operation.name;
    double* share = name == "matmul"                              ? &shares.products
                    : name.find("attention") != std::string::npos ? &shares.attention
                    : name == "layer norm"                        ? &shares.norms
                    : name == "AdamW" || name == "gradient norm" || name == "zero"
                        ? &shares.optimizer
                        : nullptr;
    if (share == nullptr) continue;
    *share += operation.seconds / step;
    shares.rest -= operation.seconds / step;
  }
  return shares;
}

double CountedTrainFlops(const ModelConfig& model, int64_t batch, int64_t length) {
  const int64_t kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  const int64_t kv_width = model.width / model.heads * kv_heads;
  int64_t multiplied = model.vocab * model.width;
  double attention = 0;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const layers::AttentionShape shape = models::AttentionShapeOf(model, layer);
    // Output and values; queries and keys only if attention reads them.
    const int64_t projected =
        model.width + kv_width + (shape.ReadsQueriesAndKeys() ? model.width + kv_width : 0) +
        (shape.decay_per_token ? static_cast<int64_t>(shape.memories.size()) : 0);
    multiplied += model.width * projected + 2 * model.width * model.ff;
    for (const layers::HeadGroup& group : shape.groups) {
      multiplied += (group.heads + group.kv_heads) * group.dim * group.feature_dim;
      attention += attention::FindKind(group.options.attention)
                       .Flops({.batch = batch,
                               .heads = group.heads,
                               .kv_heads = group.kv_heads,
                               .dim = group.SeenDim(),
                               .value_dim = group.value_dim},
                              length, group.options, /*backward=*/true);
    }
  }
  return 6.0 * static_cast<double>(multiplied) * static_cast<double>(batch * length) + attention;
}

TrainBench RunTrainBench(const TrainBenchOptions& options, const Context& context) {
  TrainBench bench{.options = options, .threads = context.threads()};
  const Device device = context.device();
  std::optional<Yardstick> sgemm;
  if (device.type == DeviceType::kCuda) {
    bench.gpu = ListGpus()[static_cast<size_t>(device.index)].name;
  } else {
    sgemm.emplace(context);
  }
  Progress progress("bench", static_cast<int64_t>(options.lengths.size()) * options.rounds,
                    options.quiet);
  const auto data = std::make_shared<Noise>(options.model.vocab);
  int64_t done = 0;
  std::sort(bench.options.lengths.begin(), bench.options.lengths.end());
  for (const int64_t length : bench.options.lengths) {
    const RunConfig run = RunOf(options, length);
    TrainMeasurement row{.length = length,
                         .tokens = options.batch * length,
                         .seconds = std::numeric_limits<double>::infinity()};
    row.planned_bytes = EstimateMemory(run.model, {.batch = options.batch,
                                                   .length = length,
                                                   .recompute = options.recompute,
                                                   .threads = context.threads(),
                                                   .placement = {device, options.pass_type}})
                            .Total();
    std::optional<Context> fresh;  // so that its scratch memory counts
    std::optional<Trainer> trainer;
    row.measured_bytes = MemoryOf(context, [&] {
      fresh.emplace(ContextOptions{.threads = context.threads(), .device = device});
      trainer.emplace(run, *fresh, data, options.pass_type);
      trainer->Step();
    });
    for (int64_t round = 0; round < options.rounds; ++round) {
      if (sgemm) sgemm->Measure();
      row.seconds = std::min(row.seconds, LeastSeconds(1, [&] { trainer->Step(); }));
      progress.Update(++done, fmt::format("L = {}", length));
    }
    MeasureOperations(*trainer, *fresh, row);
    row.gflops = CountedTrainFlops(options.model, options.batch, length) / row.seconds / 1e9;
    bench.rows.push_back(row);
  }
  if (sgemm) bench.sgemm_gflops = sgemm->gflops();
  return bench;
}

reports::Table TrainBench::ToTable() const {
  const ModelConfig& m = options.model;
  reports::Table table{
      .title = fmt::format(
          "Training step, {} attention, {} layers, width {}, {} heads, batch {}, "
          "{}",
          m.attention, m.layers, m.width, m.heads, options.batch,
          gpu.empty() ? fmt::format("{} threads", threads) : std::string(Name(options.pass_type))),
      .caption = fmt::format("{} Shortest of {} times.",
                             gpu.empty() ? YardstickText(sgemm_gflops) : gpu + ".", options.rounds),
      .columns = {"length", "s/step", "µs/token", "tokens/s", "GFLOP/s", "of sgemm", "planned MB",
                  "measured MB", "products", "attention", "norms", "optimizer", "rest"}};
  for (const TrainMeasurement& row : rows) {
    const auto tokens = static_cast<double>(row.tokens);
    const bool on_gpu = !gpu.empty();
    const auto megabytes = [](int64_t bytes) {
      return fmt::format("{:.0f}", static_cast<double>(bytes) / 1e6);
    };
    table.rows.push_back(
        {std::to_string(row.length), fmt::format("{:.{}f}", row.seconds, on_gpu ? 5 : 3),
         fmt::format("{:.{}f}", 1e6 * row.seconds / tokens, on_gpu ? 3 : 1),
         fmt::format("{:.0f}", tokens / row.seconds), fmt::format("{:.1f}", row.gflops),
         ShareText(row.gflops, sgemm_gflops), megabytes(row.planned_bytes),
         row.measured_bytes ? megabytes(*row.measured_bytes) : "?", Percent(row.shares.products),
         Percent(row.shares.attention), Percent(row.shares.norms), Percent(row.shares.optimizer),
         Percent(row.shares.rest)});
  }
  return table;
}

reports::Table TrainBench::OperationsOf(const TrainMeasurement& row) const {
  reports::Table table{
      .title = fmt::format("Operations of a step, L = {}", row.length),
      .caption = fmt::format(
          "One more step, of {:.2f} ms, whose operations are timed one by one. Sizes of products "
          "are rows × depth × columns. The last row is what is left: work between operations{}.",
          1e3 * row.timed_seconds, gpu.empty() ? "" : ", and the host where the GPU waits for it"),
      .columns = {"operation", "calls", "ms", "µs/call", "of the step"}};
  const auto add = [&](const std::string& name, const std::string& calls, double seconds,
                       const std::string& each) {
    table.rows.push_back({name, calls, fmt::format("{:.3f}", 1e3 * seconds), each,
                          fmt::format("{:.1f} %", 100 * seconds / row.timed_seconds)});
  };
  double rest = row.timed_seconds;
  for (const OperationTime& operation : row.operations) {
    const std::string& detail = operation.detail;
    add(operation.name + (detail.empty() ? "" : ": ") + detail, std::to_string(operation.calls),
        operation.seconds,
        fmt::format("{:.1f}", 1e6 * operation.seconds / static_cast<double>(operation.calls)));
    rest -= operation.seconds;
  }
  add("rest", "", rest, "");
  return table;
}

}  // namespace favor::benchmarks
