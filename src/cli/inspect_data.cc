#include "cli/inspect_data.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "core/error_text.h"
#include "favor/train.h"
#include "lab/data_statistics.h"
#include "train/config_fields.h"

namespace favor::cli {
namespace {

constexpr int64_t kMany = int64_t{1} << 32;

struct Arguments {
  FieldOptions fields;
  lab::BaselineOptions baselines;
  std::string split = "valid";
  bool without = false, json = false, quiet = false;
};

void Run(const Arguments& a) {
  RunConfig run;
  a.fields.Apply(train::DataFields(run));
  a.fields.Apply(train::FormatFields(run.format));
  if (run.data.empty())
    Throw(ErrorCode::kInvalidOption, "inspect data: --data",
          "given nothing, expected a file or task:NAME,key=value,…");
  const auto data = OpenData(run);
  std::optional<lab::BaselineOptions> options;
  if (!a.without) {
    options = a.baselines;
    options->task = run.task;
    options->split = SplitNamed(a.split);
    options->quiet = a.quiet;
  }
  const lab::DataStatistics statistics = lab::GatherStatistics(*data, options);
  if (a.json) {
    nlohmann::ordered_json json = lab::ToJson(statistics);
    json["data"] = run.data;
    json["task"] = run.task;
    PrintJson(json);
    return;
  }
  fmt::print("{}: {}{} tokens{}\n", Printable(run.data),
             statistics.vocabulary.empty() ? "" : statistics.vocabulary + ", ", statistics.vocab,
             statistics.classes > 0 ? fmt::format(", {} classes", statistics.classes) : "");
  if (const lab::Table lengths = LengthsTable(statistics); !lengths.rows.empty())
    fmt::print("\n{}", lengths.ToText());
  if (!statistics.baselines) return;
  fmt::print("\n{}\n{}", FrequenciesTable(statistics).ToText(),
             BaselinesTable(statistics).ToText());
}

}  // namespace

std::function<void()> AddInspectData(CLI::App& inspect) {
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  CLI::App* data = inspect.add_subcommand(
      "data", "Lengths and frequencies of tokens, and what simple models make of them");
  data->footer(
      "Example:\n  favor inspect data --data proteins.fasta.gz\n  favor inspect data --data "
      "book.txt "
      "--length 1024 --split test --json");
  RunConfig defaults;
  a.fields.Add(*data, "Data", train::DataFields(defaults));
  a.fields.Add(*data, "Data", train::FormatFields(defaults.format));
  AddInteger(*data, "--length", 1, int64_t{1} << 24, a.baselines.length, "Tokens of a sequence")
      ->default_str("512, or the task's own");
  AddChoice(*data, "--split", {SplitNames().begin(), SplitNames().end()}, a.split,
            "Part of the data that baselines are evaluated on");
  AddInteger(*data, "--count", 1, kMany, a.baselines.most_tokens,
             "Training targets that are counted at most; 8 bytes of memory each");
  AddInteger(*data, "--evaluate", 1, kMany, a.baselines.eval_tokens,
             "Targets that baselines are evaluated on at most");
  data->add_flag("--no-baselines", a.without, "Lengths alone, without a pass over the tokens");
  data->add_flag("--json", a.json, "Print as JSON");
  data->add_flag("--quiet", a.quiet, "No progress on stderr");
  return [arguments] { Run(*arguments); };
}

}  // namespace favor::cli
