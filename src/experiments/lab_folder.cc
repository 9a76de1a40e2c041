#include "experiments/lab_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error_text.h"
#include "core/notice.h"
#include "core/simd.h"
#include "core/stopwatch.h"
#include "favor/error.h"
#include "favor/version.h"
#include "io/atomic_file.h"
#include "io/input_file.h"

namespace favor::experiments {
namespace {

namespace fs = std::filesystem;

// "Tails of d = m = 4, chi" → "tails_of_d_m_4_chi.csv"; different for each title of a section.
std::string FileName(const std::string& title, const char* kind, std::set<std::string>& taken) {
  std::string name;
  for (const char c : title) {
    const bool digit = c >= '0' && c <= '9', small = c >= 'a' && c <= 'z',
               large = c >= 'A' && c <= 'Z';
    if (digit || small)
      name += c;
    else if (large)
      name += static_cast<char>(c - 'A' + 'a');
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (name.ends_with('_')) name.pop_back();
  if (name.empty()) name = "table";
  std::string unique = name + kind;
  for (int number = 2; !taken.insert(unique).second; ++number)
    unique = fmt::format("{}_{}{}", name, number, kind);
  return unique;
}

std::string Duration(double seconds) {
  return seconds < 90     ? fmt::format("{:.0f} s", seconds)
         : seconds < 5400 ? fmt::format("{:.0f} min", seconds / 60)
                          : fmt::format("{:.1f} h", seconds / 3600);
}

std::string VerdictCell(const std::string& verdict) {
  const char* kind = verdict == Name(Verdict::kHolds)   ? "yes"
                     : verdict == Name(Verdict::kFails) ? "no"
                                                        : "open";
  return fmt::format("<td class=\"{}\"><b>{}</b></td>", kind, reports::EscapeHtml(verdict));
}

// The claims of a section: their text wraps, and verdicts have colours.
std::string ClaimsHtml(std::span<const Claim> claims) {
  if (claims.empty()) return "";
  std::string html =
      "<div class=\"scroll\"><table class=\"wrap\">\n<tr><th>claim</th><th>what it says</th>"
      "<th>measured</th><th>verdict</th></tr>\n";
  for (const Claim& claim : claims)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>{}</tr>\n",
                        reports::EscapeHtml(claim.source), reports::EscapeHtml(claim.statement),
                        reports::EscapeHtml(claim.measured),
                        VerdictCell(std::string(Name(claim.verdict))));
  return html + "</table></div>\n";
}

reports::Table ClaimTable(std::span<const Claim> claims) {
  reports::Table table{.title = "Claims",
                       .caption = "",
                       .columns = {"claim", "what it says", "measured", "verdict"},
                       .rows = {}};
  for (const Claim& claim : claims)
    table.rows.push_back(
        {claim.source, claim.statement, claim.measured, std::string(Name(claim.verdict))});
  return table;
}

Json ClaimsJson(std::span<const Claim> claims) {
  Json list = Json::array();
  for (const Claim& claim : claims)
    list.push_back({{"source", claim.source},
                    {"statement", claim.statement},
                    {"measured", claim.measured},
                    {"verdict", Name(claim.verdict)}});
  return list;
}

// Whether results.json is one that favor wrote for this experiment.
bool IsResult(const Json& results, const Experiment& experiment) {
  const auto is_verdict = [](const Json& claim) {
    return claim.is_object() && claim.contains("verdict") && claim["verdict"].is_string();
  };
  return results.is_object() && results.contains("experiment") &&
         results["experiment"] == experiment.name && results.contains("scale") &&
         results["scale"].is_string() && results.contains("claims") &&
         results["claims"].is_array() && std::ranges::all_of(results["claims"], is_verdict);
}

}  // namespace

std::string LabSettings::Command() const {
  std::string command = fmt::format("favor lab {}", experiment.name);
  if (scale != Scale::kFull) command += fmt::format(" --{}", Name(scale));
  command += fmt::format(" --draws {} --seed {}", draws, seed);
  const OptionValues standard = experiment.StandardValues();
  for (const auto& [name, values] : options) {
    if (values != standard.at(name))
      command += fmt::format(" --{} {}", name, fmt::join(values, ","));
  }
  for (const auto& [name, value] : point.values) command += fmt::format(" --{} {}", name, value);
  if (point.allow) command += " --allow";
  return command;
}

Json LabSettings::ToJson() const {
  Json json = {{"experiment", experiment.name},
               {"version", FAVOR_VERSION},
               {"scale", Name(scale)},
               {"draws", draws},
               {"seed", seed}};
  for (const auto& [name, values] : options) json["options"][name] = values;
  // Even if none is given: sweeps are other results than a point.
  if (!experiment.parameters.empty())
    json["point"] = {{"values", point.values}, {"allow", point.allow}};
  return json;
}

LabSettings SettingsOf(const Experiment& experiment, Scale scale, int64_t draws,
                       const OptionValues& given, uint64_t seed) {
  LabSettings settings{.experiment = experiment,
                       .scale = scale,
                       .draws = draws > 0 ? draws : experiment.draws.At(scale),
                       .options = experiment.StandardValues(),
                       .seed = seed};
  for (const auto& [name, values] : given) settings.options[name] = values;
  return settings;
}

namespace {

void MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) Throw(ErrorCode::kIo, Printable(path.string()), "cannot be made: {}", error.message());
}

}  // namespace

LabFolder::LabFolder(const fs::path& path) : path_(path) { MakeFolder(path_); }

void LabFolder::Prepare(const Experiment& experiment) const { MakeFolder(FolderOf(experiment)); }

std::optional<LabFolder::Finished> LabFolder::FinishedOf(const Experiment& experiment) const {
  const std::string folder = FolderOf(experiment);
  std::error_code none;
  if (!fs::exists(folder + "/results.json", none)) return std::nullopt;
  try {
    Finished finished{.results = ParseJson(io::ReadRegularFile(folder + "/results.json")),
                      .section = io::ReadRegularFile(folder + "/section.html")};
    if (IsResult(finished.results, experiment)) return finished;
  } catch (const Error&) {
    // What cannot be read is not a result either.
  }
  Warn("lab", "{}: not results of this experiment, left out", Printable(folder));
  return std::nullopt;
}

std::optional<Json> LabFolder::Find(const LabSettings& settings) const {
  const std::optional<Finished> finished = FinishedOf(settings.experiment);
  if (!finished) return std::nullopt;
  const Json asked = settings.ToJson();
  const bool same = std::ranges::all_of(asked.items(), [&](const auto& item) {
    return finished->results.contains(item.key()) && finished->results[item.key()] == item.value();
  });
  return same ? std::optional(finished->results) : std::nullopt;
}

LabResult LabFolder::Run(const LabSettings& settings, const Context& context, bool quiet) const {
  const Experiment& experiment = settings.experiment;
  Prepare(experiment);
  reports::Report report(std::string(experiment.name), settings.Command());
  LabResult result{.results = settings.ToJson(), .tables = {}};
  ExperimentRun run{.context = context,
                    .scale = settings.scale,
                    .draws = settings.draws,
                    .quiet = quiet,
                    .report = report,
                    .results = result.results,
                    .options = settings.options,
                    .point = settings.point};
  const Stopwatch watch;
  experiment.run(run);
  result.results["claims"] = ClaimsJson(run.claims);
  result.plots_missing = report.plots_missing();
  result.tables = report.tables();

  RemoveFilesOf(experiment);
  const fs::path folder = FolderOf(experiment);
  std::set<std::string> files;
  const auto write = [&](const std::string& title, const char* kind, const std::string& text) {
    const std::string name = FileName(title, kind, files);
    result.results["files"].push_back(name);
    io::WriteFileAtomically((folder / name).string(), text);
  };
  if (!run.claims.empty()) write("claims", ".csv", ClaimTable(run.claims).ToCsv());
  for (const reports::Table& table : result.tables) write(table.title, ".csv", table.ToCsv());
  for (const reports::Report::DrawnPlot& plot : report.plots()) write(plot.title, ".svg", plot.svg);
  io::WriteFileAtomically(
      (folder / "section.html").string(),
      fmt::format("<section id=\"{0}\">\n<h1>{0}</h1>\n<p><b>{1}</b>: {2}.<br><code>{3}</code> · "
                  "{4} on the CPU ({5}, {6} threads)</p>\n{7}{8}</section>\n",
                  experiment.name, reports::EscapeHtml(std::string(experiment.subject)),
                  reports::EscapeHtml(std::string(experiment.summary)),
                  reports::EscapeHtml(settings.Command()), Duration(watch.Seconds()), SimdName(),
                  context.threads(), ClaimsHtml(run.claims), report.body()));
  io::WriteFileAtomically((folder / "results.json").string(), result.results.dump(2) + "\n");
  WriteReport();
  return result;
}

void LabFolder::RemoveFilesOf(const Experiment& experiment) const {
  const fs::path folder = FolderOf(experiment);
  const std::optional<Finished> before = FinishedOf(experiment);
  std::error_code ignored;
  fs::remove(folder / "results.json", ignored);
  if (!before || !before->results.contains("files")) return;
  for (const Json& file : before->results["files"]) {
    // Only what FileName makes: the list is data from outside.
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    const bool ours =
        (name.ends_with(".csv") || name.ends_with(".svg")) && name.find('/') == std::string::npos;
    if (ours) fs::remove(folder / name, ignored);
  }
}

void LabFolder::WriteReport() const {
  std::string contents, sections;
  for (const Experiment& experiment : AllExperiments()) {
    const std::optional<Finished> finished = FinishedOf(experiment);
    if (!finished) continue;
    std::string verdicts;
    for (const std::string_view verdict : Names<Verdict>()) {
      const auto count = std::ranges::count_if(finished->results["claims"], [&](const Json& claim) {
        return claim["verdict"] == verdict;
      });
      if (count > 0)
        verdicts += fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", count, verdict);
    }
    contents += fmt::format(
        "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td>{2}</td>"
        "<td>{3}</td><td>{4}</td></tr>\n",
        experiment.name, reports::EscapeHtml(std::string(experiment.subject)),
        reports::EscapeHtml(std::string(experiment.summary)),
        finished->results["scale"].get<std::string>(), verdicts);
    sections += finished->section;
  }
  const std::string body =
      "<p>What papers claim of linear attention, measured again. A verdict is computed from the "
      "figures and their standard errors: a claim holds if the figures agree with it, fails if "
      "they differ by more than chance makes likely in one run of 1000, and is not tested if they "
      "are too uncertain to tell. Figures with ± show standard errors.</p>\n"
      "<div class=\"scroll\"><table class=\"wrap\">\n"
      "<tr><th>experiment</th><th>of</th><th>what is measured</th><th>scale</th>"
      "<th>claims</th></tr>\n" +
      contents + "</table></div>\n" + sections;
  io::WriteFileAtomically(ReportPath(), reports::HtmlPage("favor lab", body, "favor lab"));
}

}  // namespace favor::experiments
