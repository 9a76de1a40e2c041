// The folder of a lab. Each experiment has a folder of its own in it: results.json, section.html,
// tables as CSV and plots as SVG. report.html shows the sections of all that are there.
#ifndef FAVOR_EXPERIMENTS_LAB_FOLDER_H_
#define FAVOR_EXPERIMENTS_LAB_FOLDER_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "experiments/experiment.h"
#include "reports/report.h"

namespace favor::experiments {

// What an experiment was asked to do; two runs with equal settings give equal figures.
struct LabSettings {
  const Experiment& experiment;
  Scale scale = Scale::kFull;
  int64_t draws = 0;
  OptionValues options;
  uint64_t seed = 0;
  GivenPoint point = {};

  std::string Command() const;  // the command line that repeats it
  Json ToJson() const;
};

// Settings with everything that is not given as the experiment has it. `draws` 0: the experiment's.
LabSettings SettingsOf(const Experiment& experiment, Scale scale, int64_t draws,
                       const OptionValues& given, uint64_t seed);

struct LabResult {
  Json results;  // settings, claims and figures: results.json
  std::vector<reports::Table> tables;
  bool plots_missing = false;
};

class LabFolder {
 public:
  explicit LabFolder(const std::filesystem::path& path);  // made if it is not there; throws kIo

  // Makes the folder of an experiment: throws kIo before hours of work instead of after them.
  void Prepare(const Experiment& experiment) const;
  // What the experiment found with these settings and this version, if it was finished.
  std::optional<Json> Find(const LabSettings& settings) const;
  // Runs an experiment and writes what it found in place of what was there. Its results.json is
  // written last, so that what was interrupted counts as not done; then the report is made anew.
  LabResult Run(const LabSettings& settings, const Context& context, bool quiet) const;
  void WriteReport() const;

  std::string ReportPath() const { return (path_ / "report.html").string(); }
  std::string FolderOf(const Experiment& experiment) const {
    return (path_ / experiment.name).string();
  }

 private:
  struct Finished {
    Json results;
    std::string section;
  };
  // Empty, with a warning if there is a file, for what favor did not write.
  std::optional<Finished> FinishedOf(const Experiment& experiment) const;
  void RemoveFilesOf(const Experiment& experiment) const;  // of its last run

  std::filesystem::path path_;
};

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_LAB_FOLDER_H_
