#include "cli/bench_train.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/run_options.h"
#include "core/error_text.h"
#include "core/simd.h"
#include "favor/version.h"
#include "io/atomic_file.h"
#include "lab/bench_train.h"

namespace favor::cli {
namespace {

struct Arguments {
  lab::TrainBenchOptions options;
  RunConfigOptions model;
  std::string json;
  int64_t threads = 0;
};

nlohmann::ordered_json ToJson(const lab::TrainBench& bench) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const lab::TrainBenchRow& row : bench.rows) {
    rows.push_back({{"length", row.length},
                    {"tokens", row.tokens},
                    {"seconds", row.seconds},
                    {"tokens_per_second", static_cast<double>(row.tokens) / row.seconds},
                    {"gflops", row.gflops},
                    {"share_of_sgemm", row.share_of_sgemm},
                    {"planned_bytes", row.planned_bytes},
                    {"measured_bytes",
                     row.measured_bytes ? nlohmann::ordered_json(*row.measured_bytes) : nullptr}});
  }
  return {{"version", FAVOR_VERSION},
          {"simd", SimdName()},
          {"threads", bench.threads},
          {"attention", bench.options.model.attention},
          {"batch", bench.options.batch},
          {"sgemm_gflops", bench.sgemm_gflops},
          {"rows", rows}};
}

void Run(Arguments& a) {
  CheckFiles("bench train", {a.json}, {});
  a.options.model = a.model.Fresh().model;
  if (a.options.model.vocab == 0) a.options.model.vocab = kByteVocab;
  if (a.options.model.classes > 0)
    Throw(ErrorCode::kInvalidOption, "bench train: --classes",
          "given {}, expected a language model", a.options.model.classes);
  const Context context({.threads = static_cast<int>(a.threads)});
  const lab::TrainBench bench = lab::RunTrainBench(a.options, context);
  fmt::print("{}\n", bench.ToTable().ToText());
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
}

}  // namespace

std::function<void()> AddBenchTrain(CLI::App& bench) {
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  CLI::App* train = bench.add_subcommand(
      "train", "Training steps of a model beside a large sgemm of the same run, and their memory");
  train->footer(
      "Example:\n  favor bench train --preset regular --lengths 1024,2048,4096 --json bench.json");
  AddIntegers(*train, "--lengths,--length", 1, int64_t{1} << 22, a.options.lengths,
              "Lengths of sequences");
  AddInteger(*train, "--batch", 1, 4096, a.options.batch, "Sequences at a time");
  train->add_flag("--recompute", a.options.recompute, "Compute activations again for gradients");
  AddInteger(*train, "--rounds", 1, 1000, a.options.rounds,
             "Steps that are timed; the least time counts");
  AddThreads(*train, a.threads);
  AddPath(*train, "--json", "FILE", a.json, "Write the figures as JSON");
  train->add_flag("--quiet", a.options.quiet, "No progress on stderr");
  a.model.AddModel(*train);
  return [arguments] { Run(*arguments); };
}

}  // namespace favor::cli
