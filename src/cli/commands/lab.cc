// favor lab NAME --out DIR: runs an experiment, or all, and adds what it found to the report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "experiments/experiment.h"
#include "experiments/lab_folder.h"

namespace favor::cli {
namespace {

constexpr std::string_view kAll = "all";  // as the name of an experiment

struct Arguments {
  std::vector<std::string> names;  // at most one
  std::string out = "lab";
  int64_t draws = 0;
  bool quick = false, paper = false, resume = false, quiet = false, json = false;
  ContextArguments run;
  // By experiment; an option without numbers was not given.
  std::map<std::string, experiments::OptionValues> options;
  std::map<std::string, std::optional<double>> point;  // by the name of a parameter
  bool allow = false;
};

void List() {
  size_t longest = 0;
  for (const experiments::Experiment& experiment : experiments::AllExperiments())
    longest = std::max(longest, experiment.name.size());
  for (const experiments::Experiment& experiment : experiments::AllExperiments())
    fmt::print("{:{}}  {}; {}\n", experiment.name, longest, experiment.summary, experiment.subject);
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

// Names of the experiments that `has` holds for.
template <class Has>
std::string NamesOfExperiments(const Has& has) {
  std::vector<std::string_view> names;
  for (const experiments::Experiment& experiment : experiments::AllExperiments())
    if (has(experiment)) names.push_back(experiment.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const experiments::PointParameter* FindParameter(const experiments::Experiment& experiment,
                                                 std::string_view name) {
  for (const experiments::PointParameter& parameter : experiment.parameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

std::string ExperimentsWith(std::string_view parameter) {
  return NamesOfExperiments([&](const experiments::Experiment& experiment) {
    return FindParameter(experiment, parameter) != nullptr;
  });
}

void CheckParameter(const experiments::PointParameter& parameter, double value) {
  if (value >= parameter.least && value <= parameter.most &&
      (!parameter.whole || value == std::floor(value)))
    return;
  Throw(ErrorCode::kInvalidOption, fmt::format("lab: --{}", parameter.name),
        "given {}, expected a {} from {} to {}", value, parameter.whole ? "whole number" : "number",
        parameter.least, parameter.most);
}

// The point that was given for an experiment, null: for none, or for all; what the experiment does
// not take is refused.
experiments::GivenPoint GivenPointOf(const Arguments& arguments, std::string_view name,
                                     const experiments::Experiment* experiment) {
  experiments::GivenPoint point{.values = {}, .allow = arguments.allow};
  const std::string_view with = name.empty() ? "no experiment" : name;
  for (const auto& [given, value] : arguments.point) {
    if (!value) continue;
    const experiments::PointParameter* parameter =
        experiment != nullptr ? FindParameter(*experiment, given) : nullptr;
    if (parameter == nullptr)
      Throw(ErrorCode::kInvalidOption, "lab", "given --{} with {}, expected it with {} only", given,
            with, ExperimentsWith(given));
    CheckParameter(*parameter, *value);
    point.values.emplace(given, *value);
  }
  if (point.allow && (experiment == nullptr || !experiment->has_rules || point.empty()))
    Throw(ErrorCode::kInvalidOption, "lab",
          "given --allow with {}{}, expected it with a point of {} only", with,
          point.empty() ? " and no point" : "",
          NamesOfExperiments([](const experiments::Experiment& one) { return one.has_rules; }));
  return point;
}

// The scale of a run; the two flags exclude each other.
experiments::Scale ScaleOf(const Arguments& arguments) {
  if (arguments.quick && arguments.paper)
    Throw(ErrorCode::kInvalidOption, "lab", "given --quick and --paper, expected one of them");
  return arguments.quick   ? experiments::Scale::kQuick
         : arguments.paper ? experiments::Scale::kPaper
                           : experiments::Scale::kFull;
}

// What is to be done: one experiment, or all.
std::vector<experiments::LabSettings> Asked(const Arguments& arguments) {
  const std::string& name = arguments.names[0];
  const experiments::Scale scale = ScaleOf(arguments);
  const auto seed = static_cast<uint64_t>(arguments.run.seed);
  std::vector<experiments::LabSettings> asked;
  if (name == kAll) {
    GivenOptions(arguments, kAll);
    GivenPointOf(arguments, kAll, nullptr);
    if (arguments.draws > 0)
      Throw(ErrorCode::kInvalidOption, "lab",
            "given --draws with all, expected it with one experiment");
    for (const experiments::Experiment& experiment : experiments::AllExperiments())
      asked.push_back(experiments::SettingsOf(experiment, scale, arguments.draws, {}, seed));
  } else {
    const experiments::Experiment& experiment = experiments::FindExperiment(name);
    asked.push_back(experiments::SettingsOf(experiment, scale, arguments.draws,
                                            GivenOptions(arguments, experiment.name), seed));
    asked.back().point = GivenPointOf(arguments, experiment.name, &experiment);
  }
  return asked;
}

// What each claim says, the figures and the verdict: a table of them would be too wide.
void PrintClaims(const Json& claims) {
  for (const Json& claim : claims)
    fmt::print("{}: {}\n  measured: {}\n  {}\n\n", claim["source"].get<std::string>(),
               claim["statement"].get<std::string>(), claim["measured"].get<std::string>(),
               claim["verdict"].get<std::string>());
}

// How long it will take, on stderr.
void Announce(const std::vector<const experiments::LabSettings*>& left) {
  if (left.empty()) return Notice("lab: nothing is left to do\n");
  double seconds = 0;
  for (const experiments::LabSettings* settings : left) {
    const experiments::Experiment& experiment = settings->experiment;
    // Other draws than the standard ones take as much longer; what does not depend on them is
    // small.
    seconds += experiment.seconds.At(settings->scale) * static_cast<double>(settings->draws) /
               static_cast<double>(experiment.draws.At(settings->scale));
  }
  Notice(fmt::format("lab: {} experiment{}, about {:.0f} {} on two cores\n", left.size(),
                     left.size() == 1 ? "" : "s", seconds < 90 ? seconds : seconds / 60,
                     seconds < 90 ? "s" : "min"));
}

void Run(const Arguments& arguments) {
  if (arguments.names.empty()) {
    GivenOptions(arguments, "");
    GivenPointOf(arguments, "", nullptr);
    const bool other = arguments.quick || arguments.paper || arguments.resume || arguments.json ||
                       arguments.draws > 0;
    if (other)
      Throw(ErrorCode::kInvalidOption, "lab",
            "given options with no experiment, expected a name or 'all'");
    return List();
  }
  const std::vector<experiments::LabSettings> asked = Asked(arguments);
  const experiments::LabFolder folder(arguments.out);
  CheckFiles("lab", {folder.ReportPath()}, {});
  for (const experiments::LabSettings& settings : asked) folder.Prepare(settings.experiment);
  std::vector<std::optional<Json>> found;
  std::vector<const experiments::LabSettings*> left;
  for (const experiments::LabSettings& settings : asked) {
    found.push_back(arguments.resume ? folder.Find(settings) : std::nullopt);
    if (!found.back()) left.push_back(&settings);
  }
  if (!arguments.quiet) Announce(left);

  const Context context = arguments.run.Make();
  bool plots_missing = false;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (found[i]) continue;
    const experiments::Experiment& experiment = asked[i].experiment;
    const experiments::LabResult result = folder.Run(asked[i], context, arguments.quiet);
    plots_missing = plots_missing || result.plots_missing;
    found[i] = result.results;
    if (arguments.json) continue;
    fmt::print("{}: {}\n\n", experiment.name, experiment.summary);
    PrintClaims(result.results["claims"]);
    for (const reports::Table& table : result.tables) fmt::print("{}\n", table.ToText());
    fmt::print("numbers {}\n\n", folder.FolderOf(experiment));
  }
  if (left.empty()) folder.WriteReport();
  if (plots_missing) Warn("lab", "gnuplot is not installed or failed, the report has no plots");
  if (arguments.json) {
    Json all = Json::array();
    for (const std::optional<Json>& results : found) all.push_back(*results);
    PrintJson(arguments.names[0] == kAll ? all : all[0]);
    return;
  }
  fmt::print("report  {}\n", folder.ReportPath());
}

void Declare(Options& options, Arguments& a) {
  options.Words("experiment", {0, 1}, a.names, "Which experiment, or all").Placeholder("NAME");
  options.Path(
      "--out", "DIR", a.out,
      "Folder for the report of all experiments that were run into it, and for a folder of "
      "figures, tables and plots of each");
  options.Flag("--quick", a.quick,
               "Seconds instead of minutes: what a run this small cannot tell is not tested");
  options.Flag("--paper", a.paper, "Sizes of the papers that take hours");
  options.Flag("--resume", a.resume,
               "Leave out what was finished in the folder with the same settings");
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
  options.Heading("One point of a separation experiment, instead of its sweeps");
  for (const experiments::Experiment& experiment : experiments::AllExperiments()) {
    for (const experiments::PointParameter& parameter : experiment.parameters) {
      const auto [at, added] = a.point.try_emplace(std::string(parameter.name));
      if (!added) continue;  // experiments share it
      options
          .Number(fmt::format("--{}", parameter.name), at->second,
                  fmt::format("{} ({})", parameter.help, ExperimentsWith(parameter.name)))
          .Placeholder(parameter.whole ? "N" : "X")
          .Default("the paper's");
    }
  }
  options.Flag("--allow", a.allow,
               "Measure a point that breaks a rule of the paper: the last copy of the identity is "
               "cut off if n is not a multiple of its rows, and b + c need not be 1");
}

}  // namespace

Command LabCommand() {
  return {.name = "lab",
          .summary =
              "Measure what papers claim, and write a report; without a name, list the experiments",
          .example = "favor lab estimators --quick --out lab",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
