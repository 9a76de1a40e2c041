#include "cli/run_config_options.h"

#include <filesystem>

#include "core/error_text.h"
#include "core/json.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "models/config_fields.h"
#include "train/config_fields.h"

namespace favor::cli {
namespace {

constexpr std::string_view kTask = "task:";  // generated data has no path

// Fields that a preset sets.
const std::vector<std::string_view> kOfPreset = {"width", "layers", "heads", "ff", "features"};

void ApplyPreset(const std::string& name, ModelConfig& model) {
  const ModelConfig preset = Preset(name);
  model.width = preset.width;
  model.layers = preset.layers;
  model.heads = preset.heads;
  model.ff = preset.ff;
  model.features.features = preset.features.features;
}

// A file with the bytes of the run's own copy is the run's, whatever its path.
void TakeCopy(const std::string& folder, std::string_view name, const std::string& stored,
              std::string& given) {
  const auto copy = std::filesystem::path(folder) / name;
  std::error_code ignored;
  if (given == stored || given.empty() || !std::filesystem::exists(copy, ignored)) return;
  if (io::ReadRegularFile(given) == io::ReadRegularFile(copy.string())) given = stored;
}

// 0 stands for what follows from the data, which the stored config has.
void FillDerived(const RunConfig& stored, RunConfig& config) {
  const auto fill = [](int64_t from, int64_t& to) {
    if (to == 0) to = from;
  };
  fill(stored.training.length, config.training.length);
  fill(stored.model.max_length, config.model.max_length);
  fill(stored.model.vocab, config.model.vocab);
  fill(stored.model.classes, config.model.classes);
  if (config.format.kind == "auto") config.format.kind = stored.format.kind;
  if (config.format.split_by == "auto") config.format.split_by = stored.format.split_by;
}

}  // namespace

void RunConfigOptions::AddPreset(Options& options) {
  options
      .Choice("--preset", {PresetNames().begin(), PresetNames().end()}, preset_,
              "Sizes of the model: tiny, or those of the Performers paper")
      .Default("tiny");
}

void RunConfigOptions::Add(Options& options) {
  AddPreset(options);
  options.Path("--config", "FILE.json", config_,
               "A config such as the config.json of a run; options override it");
  RunConfig defaults;
  models::ConfigFields model(defaults.model);
  fields_.Add(options, "Data", train::DataFields(defaults));
  fields_.Add(options, "Data", train::FormatFields(defaults.format));
  fields_.Add(options, "Model", model.Chosen(), kOfPreset);
  fields_.Add(options, "Training", train::TrainFields(defaults.training));
}

void RunConfigOptions::AddModel(Options& options) {
  AddPreset(options);
  RunConfig defaults;
  models::ConfigFields model(defaults.model);
  fields_.Add(options, "Model", model.All(), kOfPreset);
}

void RunConfigOptions::Apply(RunConfig& config) const {
  if (!preset_.empty()) ApplyPreset(preset_, config.model);
  if (!config_.empty())
    ReadRunConfig(io::OpenRegularFile(config_).ReadRest(models::kMaxConfigBytes), config_, config);
  models::ConfigFields model(config.model);
  fields_.Apply(train::DataFields(config));
  fields_.Apply(model.All());
  fields_.Apply(train::TrainFields(config.training));
  fields_.Apply(train::FormatFields(config.format));
  model.Store();
}

RunConfig RunConfigOptions::Fresh() const {
  RunConfig config;
  Apply(config);
  return config;
}

std::string RunConfigOptions::DataHint(const RunConfig& stored) const {
  RunConfig config = stored;
  Apply(config);
  return config.data == stored.data || config.data.starts_with(kTask) ? "" : config.data;
}

RunConfig RunConfigOptions::Agreeing(const RunConfig& stored, const std::string& folder) const {
  RunConfig config = stored;
  Apply(config);
  if (!stored.data.starts_with(kTask) && !config.data.starts_with(kTask)) config.data = stored.data;
  TakeCopy(folder, models::kTokenizerName, stored.format.tokenizer, config.format.tokenizer);
  TakeCopy(folder, models::kHeldOutName, stored.format.held_out, config.format.held_out);
  FillDerived(stored, config);
  const auto have = Json::parse(ToJson(stored)).flatten(),
             want = Json::parse(ToJson(config)).flatten();
  for (const auto& [key, value] : want.items()) {
    if (have.contains(key) && have[key] == value) continue;
    Throw(ErrorCode::kInvalidOption, "train", "{}: given {}, but the run in '{}' has {}",
          key.substr(key.rfind('/') + 1), Printable(value.dump()), Printable(folder),
          have.contains(key) ? Printable(have[key].dump()) : "none");
  }
  return config;
}

}  // namespace favor::cli
