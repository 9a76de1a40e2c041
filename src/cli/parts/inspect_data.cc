// favor inspect data: statistics of data, and how well baselines predict it.

#include <fmt/format.h>

#include <cmath>

#include "cli/field_options.h"
#include "cli/files.h"
#include "cli/parts.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "reports/data_statistics.h"
#include "train/config_fields.h"

namespace favor::cli {
namespace {

constexpr int64_t kMany = int64_t{1} << 32;

struct Arguments {
  FieldOptions fields;
  reports::BaselineOptions baselines;
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
  std::optional<reports::BaselineOptions> options;
  if (!a.without) {
    options = a.baselines;
    options->task = run.task;
    options->quiet = a.quiet;
  }
  const reports::DataStatistics statistics =
      reports::GatherStatistics(*data, run.format, a.baselines.length, options);
  if (a.json) {
    Json json = reports::ToJson(statistics);
    json["data"] = run.data;
    json["task"] = Name(run.task);
    PrintJson(json);
    return;
  }
  fmt::print("{}: {}{} tokens{}\n", Printable(run.data),
             statistics.vocabulary.empty() ? "" : statistics.vocabulary + ", ", statistics.vocab,
             statistics.scale         ? fmt::format(", numbers of mean {:.4g} and deviation {:.4g}",
                                                    statistics.scale->mean, statistics.scale->deviation)
             : statistics.classes > 0 ? fmt::format(", {} classes", statistics.classes)
                                      : "");
  if (const reports::Table lengths = LengthsTable(statistics); !lengths.rows.empty())
    fmt::print("\n{}", lengths.ToText());
  for (const std::string& text : {SplitText(statistics), DroppedText(statistics)}) {
    if (!text.empty()) fmt::print("{}\n", text);
  }
  if (!statistics.baselines) return;
  if (statistics.scale) {
    const reports::Baseline& mean = statistics.baselines->baselines.front();
    fmt::print("{}: a root mean squared error of {:.4g} on {} numbers of the {} split\n", mean.name,
               statistics.scale->deviation * std::sqrt(mean.score.MeanLoss()), mean.score.count,
               Name(statistics.split));
    return;
  }
  fmt::print("\n{}\n{}", FrequenciesTable(statistics).ToText(),
             BaselinesTable(statistics).ToText());
  if (run.task != Task::kMasked) return;
  std::vector<reports::MaskingScores> kinds;
  for (const reports::Baseline& baseline : statistics.baselines->baselines)
    kinds.push_back({baseline.name, baseline.by_masking});
  fmt::print("\n{}", reports::MaskingTable(kinds).ToText());
}

void Declare(Options& options, Arguments& a) {
  RunConfig defaults;
  a.fields.Add(options, "Data", train::DataFields(defaults));
  a.fields.Add(options, "Data", train::FormatFields(defaults.format));
  options.Integer("--length", {1, int64_t{1} << 24}, a.baselines.length, "Tokens of a sequence")
      .Default("512, or the task's own");
  options.Choice("--split", Names<Split>().first(kSplits), a.baselines.split,
                 "Split that baselines are evaluated on");
  options.Integer("--count", {1, kMany}, a.baselines.most_tokens,
                  "Most training targets to count; 8 bytes of memory each");
  options.Integer("--evaluate", {1, kMany}, a.baselines.eval_tokens,
                  "Most targets to evaluate baselines on");
  options.Flag("--no-baselines", a.without, "Only lengths, without a pass over the tokens");
  options.Flag("--json", a.json, "Print as JSON");
  options.Flag("--quiet", a.quiet, "No progress on stderr");
}

}  // namespace

Command InspectDataPart() {
  return {.name = "data",
          .summary = "Lengths, frequencies of tokens, and how well baselines predict them",
          .example =
              "favor inspect data --data proteins.fasta.gz\n  favor inspect data --data book.txt "
              "--length 1024 --split test --json",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
