// favor bench train.

#include <fmt/format.h>

#include "benchmarks/train.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/parts.h"
#include "cli/run_config_options.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/simd.h"
#include "favor/version.h"
#include "io/atomic_file.h"

namespace favor::cli {
namespace {

struct Arguments {
  benchmarks::TrainBenchOptions options;
  RunConfigOptions model;
  bool operations = false;
  std::string json;
  ContextArguments run;
};

Json ToJson(const std::vector<OperationTime>& operations) {
  Json json = Json::array();
  for (const OperationTime& operation : operations) {
    json.push_back({{"name", operation.name},
                    {"detail", operation.detail},
                    {"calls", operation.calls},
                    {"seconds", operation.seconds}});
  }
  return json;
}

Json ToJson(const benchmarks::TrainBench& bench) {
  Json rows = Json::array();
  for (const benchmarks::TrainMeasurement& row : bench.rows) {
    rows.push_back(
        {{"length", row.length},
         {"tokens", row.tokens},
         {"seconds", row.seconds},
         {"tokens_per_second", static_cast<double>(row.tokens) / row.seconds},
         {"gflops", row.gflops},
         {"share_of_sgemm", bench.sgemm_gflops ? Json(row.gflops / *bench.sgemm_gflops) : Json()},
         {"planned_bytes", row.planned_bytes},
         {"measured_bytes", row.measured_bytes ? Json(*row.measured_bytes) : nullptr},
         {"shares",
          {{"products", row.shares.products},
           {"attention", row.shares.attention},
           {"norms", row.shares.norms},
           {"optimizer", row.shares.optimizer},
           {"rest", row.shares.rest}}},
         {"timed_seconds", row.timed_seconds},
         {"operations", ToJson(row.operations)}});
  }
  return {{"version", FAVOR_VERSION},
          {"simd", SimdName()},
          {"threads", bench.threads},
          {"gpu", bench.gpu.empty() ? Json() : Json(bench.gpu)},
          {"precision", Name(bench.options.pass_type)},
          {"attention", bench.options.model.attention},
          {"batch", bench.options.batch},
          {"dropout", bench.options.dropout},
          {"sgemm_gflops", bench.sgemm_gflops ? Json(*bench.sgemm_gflops) : Json()},
          {"rows", rows}};
}

void Run(Arguments& a) {
  CheckFiles("bench train", {a.json}, {});
  a.options.model = a.model.Fresh(a.run.ModelOmega()).model;
  a.options.pass_type = a.run.ModelPlacement().pass_type;
  if (a.options.model.vocab == 0) a.options.model.vocab = kByteVocab;
  if (a.options.model.classes > 0)
    Throw(ErrorCode::kInvalidOption, "bench train: --classes",
          "given {}, expected a language model", a.options.model.classes);
  const Context context = a.run.Make();
  const benchmarks::TrainBench bench = benchmarks::RunTrainBench(a.options, context);
  fmt::print("{}\n", bench.ToTable().ToText());
  if (a.operations) {
    for (const benchmarks::TrainMeasurement& row : bench.rows)
      fmt::print("{}\n", bench.OperationsOf(row).ToText());
  }
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
}

void Declare(Options& options, Arguments& a) {
  options.Integers("--lengths,--length", {1, int64_t{1} << 22}, a.options.lengths,
                   "Lengths of sequences");
  options.Integer("--batch", {1, 4096}, a.options.batch, "Sequences at a time");
  options.Flag("--recompute", a.options.recompute, "Compute activations again for gradients");
  options.Number("--dropout", a.options.dropout, "Dropout of the steps");
  options.Integer("--rounds", {1, 1000}, a.options.rounds,
                  "Steps that are timed; the shortest time counts");
  options.Flag("--operations", a.operations, "Also list the time of every operation of a step");
  a.run.AddThreads(options);
  a.run.AddPlacement(options, DataType::kBF16);
  options.Path("--json", "FILE", a.json, "Write the figures as JSON");
  options.Flag("--quiet", a.options.quiet, "No progress on stderr");
  a.model.AddModel(options);
}

}  // namespace

Command BenchTrainPart() {
  return {
      .name = "train",
      .summary =
          "Training steps of a model next to a large sgemm of the same run, and their memory",
      .example = "favor bench train --preset regular --lengths 1024,2048,4096 --json bench.json",
      .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
