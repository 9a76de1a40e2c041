#include "cli/bench_generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/run_options.h"
#include "core/error_text.h"
#include "core/simd.h"
#include "favor/version.h"
#include "io/atomic_file.h"
#include "lab/bench_generate.h"

namespace favor::cli {
namespace {

struct Arguments {
  lab::GenerateBenchOptions options;
  RunConfigOptions model;
  std::string json;
  int64_t threads = 0;
};

nlohmann::ordered_json ToJson(const lab::GenerateBench& bench) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const lab::GenerateBenchRow& row : bench.rows) {
    rows.push_back({{"context", row.context},
                    {"read_tokens_per_second", row.read_tokens_per_second},
                    {"tokens_per_second", 1 / row.seconds},
                    {"state_bytes", row.state_bytes},
                    {"copy_seconds", row.copy_seconds},
                    {"share_of_copy", row.ShareOfCopy()}});
  }
  return {{"version", FAVOR_VERSION},           {"simd", SimdName()},
          {"threads", bench.threads},           {"attention", bench.options.model.attention},
          {"weight_bytes", bench.weight_bytes}, {"rows", rows}};
}

void Run(Arguments& a) {
  CheckFiles("bench generate", {a.json}, {});
  ModelConfig& model = a.options.model;
  model = a.model.Fresh().model;
  if (model.vocab == 0) model.vocab = kByteVocab;
  if (model.positions == "learned" && model.max_length == 0)
    model.max_length = std::ranges::max(a.options.contexts) + a.options.tokens;
  const Context context({.threads = static_cast<int>(a.threads)});
  const lab::GenerateBench bench = lab::RunGenerateBench(a.options, context);
  fmt::print("{}{}\n", bench.ToTable().ToText(), bench.ToTable().caption);
  if (!a.json.empty()) io::WriteFileAtomically(a.json, ToJson(bench).dump(2) + "\n");
}

}  // namespace

std::function<void()> AddBenchGenerate(CLI::App& bench) {
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  CLI::App* generate = bench.add_subcommand(
      "generate", "Tokens a second behind contexts, beside a copy of the same bytes");
  generate->footer(
      "Example:\n  favor bench generate --preset regular --positions rotary --contexts 100,100000");
  AddIntegers(*generate, "--contexts,--context", 1, int64_t{1} << 32, a.options.contexts,
              "Tokens read before the first is generated");
  AddInteger(*generate, "--tokens", 1, 1 << 20, a.options.tokens, "Tokens of a round");
  AddInteger(*generate, "--rounds", 1, 1000, a.options.rounds,
             "Rounds that are timed; the least time counts");
  AddThreads(*generate, a.threads);
  AddPath(*generate, "--json", "FILE", a.json, "Write the figures as JSON");
  generate->add_flag("--quiet", a.options.quiet, "No progress on stderr");
  a.model.AddModel(*generate);
  return [arguments] { Run(*arguments); };
}

}  // namespace favor::cli
