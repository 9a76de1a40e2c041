// favor lab NAME --out DIR: runs an experiment; writes report.html and results.json.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "experiments/experiment.h"
#include "favor/version.h"
#include "io/atomic_file.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::vector<std::string> names;  // at most one
  std::string out;
  int64_t draws = 0;
  bool quiet = false, json = false;
  ContextArguments run;
};

void List() {
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    fmt::print("{:16}{}\n", experiment.name, experiment.summary);
  }
}

void Run(const Arguments& arguments) {
  if (arguments.names.empty()) return List();
  const experiments::Experiment& experiment = experiments::FindExperiment(arguments.names[0]);
  const std::filesystem::path folder = arguments.out.empty() ? arguments.names[0] : arguments.out;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    Throw(ErrorCode::kIo, Printable(folder.string()), "cannot be made: {}", error.message());
  const std::string report_path = (folder / "report.html").string(),
                    results_path = (folder / "results.json").string();
  CheckFiles("lab", {report_path, results_path}, {});

  const Context context = arguments.run.Make();
  const int64_t draws = arguments.draws > 0 ? arguments.draws : experiment.default_draws;
  reports::Report report(
      fmt::format("favor lab: {}", experiment.name),
      fmt::format("favor lab {} --draws {} --seed {}", experiment.name, draws, context.seed()));
  Json results = {{"experiment", experiment.name},
                  {"version", FAVOR_VERSION},
                  {"draws", draws},
                  {"seed", context.seed()}};
  experiments::ExperimentRun run{.context = context,
                                 .draws = draws,
                                 .quiet = arguments.quiet,
                                 .report = report,
                                 .results = results};
  experiment.run(run);
  io::WriteFileAtomically(results_path, results.dump(2) + "\n");
  io::WriteFileAtomically(report_path, report.ToHtml());
  if (report.plots_missing()) {
    Warn("lab", "gnuplot is not installed or failed, the report has no plots");
  }
  if (arguments.json) {
    PrintJson(results);
    return;
  }
  for (const reports::Table& table : report.tables()) fmt::print("{}\n", table.ToText());
  fmt::print("report  {}\nnumbers {}\n", report_path, results_path);
}

void Declare(Options& options, Arguments& a) {
  options.Words("experiment", {0, 1}, a.names, "Which experiment").Placeholder("NAME");
  options.Path("--out", "DIR", a.out,
               "Folder for report.html and results.json (default: the name)");
  options.Integer("--draws", {2, 100'000'000}, a.draws, "How often randomness is drawn anew")
      .Default("the experiment's");
  a.run.Add(options);
  options.Flag("--quiet", a.quiet, "No progress on stderr");
  options.Flag("--json", a.json, "Print the results as JSON");
}

}  // namespace

Command LabCommand() {
  return {.name = "lab",
          .summary = "Run an experiment and write its report; without a name, list them",
          .example = "favor lab estimators --out estimators",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
