// Experiments: what the papers claim, measured again. Each file of studies/ defines one
// function `Experiment NameExperiment()`; the list follows from the files.
#ifndef FAVOR_EXPERIMENTS_EXPERIMENT_H_
#define FAVOR_EXPERIMENTS_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "favor/context.h"
#include "reports/report.h"

namespace favor::experiments {

// Whole numbers that an experiment can be given: an option of `favor lab`.
struct ExperimentOption {
  std::string_view name;  // "pairs", given as --pairs
  std::string_view help;
  int64_t least, most;
  std::vector<int64_t> standard;
  bool list = true;  // several numbers, ascending; otherwise one
};
using OptionValues = std::map<std::string, std::vector<int64_t>, std::less<>>;  // by name

struct ExperimentRun {
  const Context& context;
  int64_t draws;  // how often randomness is drawn anew: more draws, smaller error bars
  bool quiet;     // no progress on stderr
  reports::Report& report;
  Json& results;              // figures for programs: becomes results.json
  OptionValues options = {};  // one entry for each of the experiment's options
};

struct Experiment {
  std::string_view name;
  std::string_view summary;
  int64_t default_draws;
  void (*run)(ExperimentRun& run);
  std::vector<ExperimentOption> options = {};

  OptionValues StandardValues() const;
};

std::span<const Experiment> AllExperiments();             // in order of their file names
const Experiment& FindExperiment(std::string_view name);  // throws, naming the nearest

}  // namespace favor::experiments

#endif  // FAVOR_EXPERIMENTS_EXPERIMENT_H_
