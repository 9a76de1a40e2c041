#include "experiments/experiment.h"

#include <vector>

#include "core/error_text.h"

namespace favor::experiments {

#define FAVOR_ENTRY(Name) Experiment Name##Experiment();
#include "experiments.inc"
#undef FAVOR_ENTRY

double GivenPoint::At(std::string_view name, double standard) const {
  const auto at = values.find(name);
  return at == values.end() ? standard : at->second;
}

int64_t GivenPoint::WholeAt(std::string_view name, int64_t standard) const {
  return static_cast<int64_t>(At(name, static_cast<double>(standard)));
}

OptionValues Experiment::StandardValues() const {
  OptionValues values;
  for (const ExperimentOption& option : options) values.emplace(option.name, option.standard);
  return values;
}

std::span<const Experiment> AllExperiments() {
  static const Experiment experiments[] = {
#define FAVOR_ENTRY(Name) Name##Experiment(),
#include "experiments.inc"
#undef FAVOR_ENTRY
  };
  return experiments;
}

const Experiment& FindExperiment(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Experiment& experiment : AllExperiments()) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  Throw(ErrorCode::kInvalidOption, "lab", "unknown experiment '{}'{}", Printable(name),
        Suggest(name, names));
}

}  // namespace favor::experiments
