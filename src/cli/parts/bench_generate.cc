// favor bench generate.

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/generate.h"
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
  benchmarks::GenerateBenchOptions options;
  RunConfigOptions model;
  std::string json;
  ContextArguments run;
};

Json ToJson(const benchmarks::GenerateBench& bench) {
  Json rows = Json::array();
  for (const benchmarks::GenerateMeasurement& row : bench.rows) {
    rows.push_back({{"prefix", row.prefix},
                    {"read_tokens_per_second", row.read_tokens_per_second},
                    {"tokens_per_second", bench.TokensPerSecond(row)},
                    {"step_seconds", row.seconds},
                    {"state_bytes", row.state_bytes},
                    {"copy_seconds", row.copy_seconds},
                    {"share_of_copy", row.ShareOfCopy()}});
  }
  return {{"version", FAVOR_VERSION},
          {"simd", SimdName()},
          {"threads", bench.threads},
          {"gpu", bench.gpu.empty() ? Json() : Json(bench.gpu)},
          {"precision", Name(bench.options.pass_type)},
          {"attention", bench.options.model.attention},
          {"batch", bench.options.batch},
          {"weight_bytes", bench.weight_bytes},
          {"rows", rows}};
}

void Run(Arguments& a) {
  CheckFiles("bench generate", {a.json}, {});
  ModelConfig& model = a.options.model;
  model = a.model.Fresh(a.run.ModelOmega()).model;
  a.options.pass_type = a.run.ModelPlacement().pass_type;
  if (model.vocab == 0) model.vocab = kByteVocab;
  if (model.positions == Positions::kLearned && model.max_length == 0)
    model.max_length =
        std::ranges::max(a.options.prefixes) + a.options.tokens + a.options.kUntimedTokens;
  const Context context = a.run.Make();
  const benchmarks::GenerateBench bench = benchmarks::RunGenerateBench(a.options, context);
  fmt::print("{}{}\n", bench.ToTable().ToText(), bench.ToTable().caption);
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
}

void Declare(Options& options, Arguments& a) {
  options.Integers("--prefixes,--prefix", {1, int64_t{1} << 32}, a.options.prefixes,
                   "Lengths of the prefix: tokens read before the first is generated");
  options.Integer("--tokens", {1, 1 << 20}, a.options.tokens,
                  "Tokens of each sequence generated per round");
  options.Integer("--batch", {1, 4096}, a.options.batch,
                  "Sequences that continue the prefix, one token of each at a time");
  options.Integer("--rounds", {1, 1000}, a.options.rounds,
                  "Rounds that are timed; the shortest time counts");
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
  options.Path("--json", "FILE", a.json, "Write the figures as JSON");
  options.Flag("--quiet", a.options.quiet, "No progress on stderr");
  a.model.AddModel(options);
}

}  // namespace

Command BenchGeneratePart() {
  return {
      .name = "generate",
      .summary =
          "Tokens per second after prefixes of given lengths, next to a copy of the same bytes",
      .example = "favor bench generate --preset regular --positions rotary --prefixes 100,100000",
      .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
