// Experiments: what the papers claim, measured again. Each file of studies/ defines one
// function `Experiment NameExperiment()`; the list follows from the files.
#ifndef FAVOR_EXPERIMENTS_EXPERIMENT_H_
#define FAVOR_EXPERIMENTS_EXPERIMENT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "experiments/verdict.h"
#include "favor/context.h"
#include "favor/names.h"
#include "reports/report.h"

namespace favor::experiments {

// How much is measured.
enum class Scale : uint8_t {
  kQuick,  // seconds: shows what an experiment does; most claims are not tested
  kFull,
  kPaper,  // sizes that need hours
};

// What is chosen by it.
template <class Value>
struct ByScale {
  Value quick, full, paper;

  const Value& At(Scale scale) const {
    return scale == Scale::kQuick ? quick : scale == Scale::kFull ? full : paper;
  }
};

// Whole numbers that an experiment can be given: an option of `favor lab`.
struct ExperimentOption {
  std::string_view name;  // "pairs", given as --pairs
  std::string_view help;
  int64_t least, most;
  std::vector<int64_t> standard;
  bool list = true;  // several numbers, ascending; otherwise one
};
using OptionValues = std::map<std::string, std::vector<int64_t>, std::less<>>;  // by name

// A number of one point of an experiment's sweeps. If some are given, by options of `favor lab`,
// that point is measured instead of the sweeps. Experiments may share a name.
struct PointParameter {
  std::string_view name;  // "a1", given as --a1
  std::string_view help;
  double least, most;
  bool whole = false;  // a whole number
};
struct GivenPoint {
  std::map<std::string, double, std::less<>> values;  // by name
  // Values that break a rule of the paper are measured all the same, as the experiment says.
  bool allow = false;

  bool empty() const { return values.empty(); }
  double At(std::string_view name, double standard) const;
  int64_t WholeAt(std::string_view name, int64_t standard) const;
};

struct ExperimentRun {
  const Context& context;
  Scale scale = Scale::kFull;
  int64_t draws;  // how often randomness is drawn anew: more draws, smaller error bars
  bool quiet;     // no progress on stderr
  reports::Report& report;
  Json& results;                   // figures for programs: becomes results.json
  OptionValues options = {};       // one entry for each of the experiment's options
  GivenPoint point = {};           // empty: the experiment's sweeps
  std::vector<Claim> claims = {};  // filled by the experiment, in the order of the text
};

struct Experiment {
  std::string_view name;
  std::string_view summary;
  std::string_view subject;  // what of the paper it measures: "Lemma 2, Figure 2"
  ByScale<int64_t> draws;
  ByScale<double> seconds;  // what it takes on two cores, roughly
  void (*run)(ExperimentRun& run);
  std::vector<ExperimentOption> options = {};
  std::vector<PointParameter> parameters = {};
  bool has_rules = false;  // points may break a rule: --allow measures them all the same

  OptionValues StandardValues() const;
};

std::span<const Experiment> AllExperiments();             // in order of their file names
const Experiment& FindExperiment(std::string_view name);  // throws, naming the nearest

}  // namespace favor::experiments

namespace favor {
template <>
inline constexpr auto kNamesOf<experiments::Scale> =
    std::to_array<std::string_view>({"quick", "full", "paper"});
}  // namespace favor

#endif  // FAVOR_EXPERIMENTS_EXPERIMENT_H_
