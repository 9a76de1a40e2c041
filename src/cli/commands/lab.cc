// favor lab NAME --out DIR: runs an experiment; writes report.html and results.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

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
  // By experiment; an option without numbers was not given.
  std::map<std::string, experiments::OptionValues> options;
};

void List() {
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    fmt::print("{:16}{}\n", experiment.name, experiment.summary);
  }
}

void CheckNumbers(const experiments::ExperimentOption& option, const std::vector<int64_t>& values) {
  const bool fits = option.list
                        ? std::ranges::adjacent_find(values, std::greater_equal()) == values.end()
                        : values.size() == 1;
  if (!fits)
    Throw(ErrorCode::kInvalidOption, fmt::format("lab: --{}", option.name), "given {}, expected {}",
          fmt::join(values, ","), option.list ? "numbers in ascending order" : "one number");
}

// What was given for the options of one experiment; options of the others are refused.
experiments::OptionValues GivenOptions(const Arguments& arguments, std::string_view name) {
  experiments::OptionValues given;
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    for (const experiments::ExperimentOption& option : experiment.options) {
      const std::vector<int64_t>& values =
          arguments.options.at(std::string(experiment.name)).at(std::string(option.name));
      if (values.empty()) continue;
      if (experiment.name != name)
        Throw(ErrorCode::kInvalidOption, "lab", "given --{} with {}, expected it with {} only",
              option.name, name.empty() ? "no experiment" : name, experiment.name);
      CheckNumbers(option, values);
      given.emplace(option.name, values);
    }
  }
  return given;
}

void Run(const Arguments& arguments) {
  if (arguments.names.empty()) {
    GivenOptions(arguments, "");
    return List();
  }
  const experiments::Experiment& experiment = experiments::FindExperiment(arguments.names[0]);
  const experiments::OptionValues given = GivenOptions(arguments, experiment.name);
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
  std::string command =
      fmt::format("favor lab {} --draws {} --seed {}", experiment.name, draws, context.seed());
  experiments::OptionValues options = experiment.StandardValues();
  for (const auto& [name, values] : given) {
    command += fmt::format(" --{} {}", name, fmt::join(values, ","));
    options[name] = values;
  }
  reports::Report report(fmt::format("favor lab: {}", experiment.name), command);
  Json results = {{"experiment", experiment.name},
                  {"version", FAVOR_VERSION},
                  {"draws", draws},
                  {"seed", context.seed()}};
  for (const auto& [name, values] : options) results["options"][name] = values;
  experiments::ExperimentRun run{.context = context,
                                 .draws = draws,
                                 .quiet = arguments.quiet,
                                 .report = report,
                                 .results = results,
                                 .options = options};
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
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    options.Heading(fmt::format("Options of {}", experiment.name));
    for (const experiments::ExperimentOption& option : experiment.options) {
      options
          .Integers(fmt::format("--{}", option.name), {option.least, option.most},
                    a.options[std::string(experiment.name)][std::string(option.name)],
                    std::string(option.help))
          .Placeholder(option.list ? "N,N,..." : "N")
          .Default(fmt::format("{}", fmt::join(option.standard, ",")));
    }
  }
}

}  // namespace

Command LabCommand() {
  return {.name = "lab",
          .summary = "Run an experiment and write its report; without a name, list them",
          .example = "favor lab estimators --out estimators",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
