// favor lab NAME --out DIR: runs an experiment; writes report.html and results.json.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/options.h"
#include "core/error_text.h"
#include "favor/version.h"
#include "io/atomic_file.h"
#include "lab/experiment.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string name, out;
  int64_t draws = 0;
  bool quiet = false, json = false;
  RunOptions run;
};

void List() {
  for (const lab::Experiment& experiment : lab::AllExperiments()) {
    fmt::print("{:16}{}\n", experiment.name, experiment.summary);
  }
}

void Run(const Arguments& arguments) {
  if (arguments.name.empty()) return List();
  const lab::Experiment& experiment = lab::FindExperiment(arguments.name);
  const std::filesystem::path folder = arguments.out.empty() ? arguments.name : arguments.out;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    Throw(ErrorCode::kIo, Printable(folder.string()), "cannot be made: {}", error.message());
  const std::string report_path = (folder / "report.html").string(),
                    results_path = (folder / "results.json").string();
  CheckFiles("lab", {report_path, results_path}, {});

  const Context context(arguments.run.ToContext());
  const int64_t draws = arguments.draws > 0 ? arguments.draws : experiment.default_draws;
  lab::Report report(
      fmt::format("favor lab: {}", experiment.name),
      fmt::format("favor lab {} --draws {} --seed {}", experiment.name, draws, context.seed()));
  nlohmann::json results = {{"experiment", experiment.name},
                            {"version", FAVOR_VERSION},
                            {"draws", draws},
                            {"seed", context.seed()}};
  lab::ExperimentRun run{.context = context,
                         .draws = draws,
                         .quiet = arguments.quiet,
                         .report = report,
                         .results = results};
  experiment.run(run);
  io::WriteFileAtomically(results_path, results.dump(2) + "\n");
  io::WriteFileAtomically(report_path, report.ToHtml());
  if (report.plots_missing()) {
    fmt::print(
        stderr,
        "favor: warning: lab: gnuplot is not installed or failed, the report has no plots\n");
  }
  if (arguments.json) {
    PrintJson(results);
    return;
  }
  for (const lab::Table& table : report.tables()) fmt::print("{}\n", table.ToText());
  fmt::print("report  {}\nnumbers {}\n", report_path, results_path);
}

}  // namespace

Command LabCommand() {
  return {.name = "lab",
          .summary = "Run an experiment and write its report; without a name, list them",
          .example = "favor lab estimators --out estimators",
          .setup = [](CLI::App& app) -> std::function<void()> {
            const auto arguments = std::make_shared<Arguments>();
            Arguments& a = *arguments;
            app.add_option("experiment", a.name, "Which experiment")->option_text("NAME");
            AddPath(app, "--out", "DIR", a.out,
                    "Folder for report.html and results.json (default: the name)");
            AddInteger(app, "--draws", 2, 100'000'000, a.draws,
                       "How often randomness is drawn anew")
                ->default_str("the experiment's");
            AddRunOptions(app, a.run);
            app.add_flag("--quiet", a.quiet, "No progress on stderr");
            app.add_flag("--json", a.json, "Print the results as JSON");
            return [arguments] { Run(*arguments); };
          }};
}

}  // namespace favor::cli
