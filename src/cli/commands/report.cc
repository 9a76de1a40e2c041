// favor report DIR…: a page about one run, or about several next to each other.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "io/atomic_file.h"
#include "reports/run_report.h"
#include "train/run_folder.h"

namespace favor::cli {
namespace {

struct Arguments {
  reports::RunReportOptions options;
  std::string out;
  ContextArguments run;
  bool json = false;
};

void Run(Arguments& a) {
  if (a.out.empty()) {
    a.out = a.options.folders.size() > 1
                ? "report.html"
                : (std::filesystem::path(a.options.folders[0]) / "report.html").string();
  }
  std::vector<std::string> inputs;
  for (const std::string& folder : a.options.folders) {
    if (folder.empty())
      Throw(ErrorCode::kInvalidOption, "report", "given an empty name, expected folders of runs");
    const RunConfig config = train::ReadRunFolder(folder).config;
    for (const std::string& file : train::FilesOf(config, folder)) inputs.push_back(file);
    a.options.repeat += CommandOf(config, folder) + "\n";
  }
  inputs.push_back(a.options.data);
  CheckFiles("report", {a.out}, inputs);
  a.options.command = "favor report";
  for (const std::string& folder : a.options.folders)
    a.options.command.append(" ").append(Quoted(folder));
  if (!a.options.data.empty()) a.options.command.append(" --data ").append(Quoted(a.options.data));
  if (!a.options.lengths.empty())
    a.options.command += fmt::format(" --lengths {}", fmt::join(a.options.lengths, ","));
  a.options.command += a.run.PlacementWords();
  if (a.options.folders.size() > 1) {
    a.options.command.append(" --out ").append(Quoted(a.out));
    a.options.repeat += a.options.command + "\n";
  }
  const Context context = a.run.Make();
  a.options.placement = a.run.ModelPlacement();
  Json results = Json::object();
  const reports::Report report = reports::MakeRunReport(a.options, context, results);
  io::WriteFileAtomically(a.out, report.ToHtml());
  if (report.plots_missing())
    Warn("report", "gnuplot is not installed or failed, the report has no plots");
  for (const std::string& warning : report.warnings()) Warn("report", "{}", warning);
  if (a.json) return PrintJson(results);
  fmt::print("{}\n{}\nreport  {}\n", report.tables()[0].ToText(), report.tables()[1].ToText(),
             Printable(a.out));
}

void Declare(Options& options, Arguments& a) {
  options.Words("folders", {1, 1000}, a.options.folders, "Folders of runs").Placeholder("DIR...");
  options.Path("--out", "FILE.html", a.out,
               "The page (default: report.html in the folder, or here for several)");
  options.Path("--data", "FILE", a.options.data,
               "Where the runs' data is now, or other data to evaluate them on");
  options.Integers("--lengths", {1, int64_t{1} << 22}, a.options.lengths,
                   "Also measure the time per token at these lengths");
  options.Integer("--samples", {0, 1000}, a.options.samples, "Samples from each model");
  options.Integer("--evaluate", {1, int64_t{1} << 40}, a.options.evaluate,
                  "Targets of the test split to evaluate");
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
  options.Flag("--json", a.json, "Print the figures as JSON");
  options.Flag("--quiet", a.options.quiet, "No progress on stderr");
}

}  // namespace

Command ReportCommand() {
  return {.name = "report",
          .summary = "Write a page about one run, or several next to each other",
          .example = "favor report linear exact --lengths 256,1024,4096 --out report.html",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
