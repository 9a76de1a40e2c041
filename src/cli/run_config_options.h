// The options that describe a run or a model: the recommended settings or the paper's, a preset of
// sizes, then a config file, then single options.
#ifndef FAVOR_CLI_RUN_CONFIG_OPTIONS_H_
#define FAVOR_CLI_RUN_CONFIG_OPTIONS_H_

#include <string>

#include "cli/field_options.h"
#include "cli/options.h"
#include "favor/train.h"

namespace favor::cli {

class RunConfigOptions {
 public:
  // --preset, --config, and an option for every field.
  void Add(Options& options);
  // Only the options of a model, with --vocab and --classes.
  void AddModel(Options& options);

  bool Given() const { return paper_ || !preset_.empty() || !config_.empty() || fields_.Given(); }
  // `omega_type` is that of new models of which no option says another.
  RunConfig Fresh(OmegaType omega_type = OmegaType::kF32) const;
  // The config of a run that exists; throws if an option says otherwise. Paths are hints: the data
  // may be elsewhere now (DataHint), copies of the run's own tokenizer and list of names anywhere.
  RunConfig Agreeing(const RunConfig& stored, const std::string& folder) const;
  // Where the data of that run is, if an option says so; otherwise empty.
  std::string DataHint(const RunConfig& stored) const;

 private:
  void AddPreset(Options& options);
  // The config of the run that this one starts from (--init), for what no option says.
  RunConfig BaseOfInit(const RunConfig& given) const;
  void Apply(RunConfig& config) const;

  std::string preset_, config_;
  bool paper_ = false;
  FieldOptions fields_;
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_RUN_CONFIG_OPTIONS_H_
