#include "cli/run_config_options.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "core/error_text.h"
#include "core/json.h"
#include "io/input_file.h"
#include "models/checkpoint.h"
#include "models/config.h"
#include "models/config_fields.h"
#include "train/config_fields.h"
#include "train/run_data.h"
#include "train/start.h"

namespace favor::cli {
namespace {

constexpr std::string_view kTask = "task:";  // generated data has no path

// A file with the same bytes as the run's own copy counts as the run's, whatever its path.
void TakeCopy(const std::string& folder, std::string_view name, const std::string& stored,
              std::string& given) {
  const auto copy = std::filesystem::path(folder) / name;
  std::error_code ignored;
  if (given == stored || given.empty() || !std::filesystem::exists(copy, ignored)) return;
  if (io::ReadRegularFile(given) == io::ReadRegularFile(copy.string())) given = stored;
}

// Fills in values that follow from the data (0 or auto in `config`) from the stored config.
void FillDerived(const RunConfig& stored, RunConfig& config) {
  const auto fill = [](int64_t from, int64_t& to) {
    if (to == 0) to = from;
  };
  fill(stored.training.length, config.training.length);
  fill(stored.model.max_length, config.model.max_length);
  fill(stored.model.vocab, config.model.vocab);
  fill(stored.model.classes, config.model.classes);
  config.model.per_token = stored.model.per_token;
  config.model.numbers = stored.model.numbers;
  if (config.format.kind == DataKind::kAuto) config.format.kind = stored.format.kind;
  if (config.format.split_by == SplitRule::kAuto) config.format.split_by = stored.format.split_by;
}

}  // namespace

void RunConfigOptions::AddPreset(Options& options) {
  std::vector<std::string> sizes;
  for (const models::Sizes& preset : models::Presets()) {
    sizes.push_back(
        fmt::format("{} {} × {}, {}", preset.name, preset.layers, preset.width, preset.heads));
  }
  options
      .Choice(
          "--preset", PresetNames(), preset_,
          fmt::format("Sizes of the model; all except tiny are the Performers paper's (layers × "
                      "width, heads: {})",
                      fmt::join(sizes, "; ")))
      .Default("tiny");
}

void RunConfigOptions::Add(Options& options) {
  AddPreset(options);
  options.Path("--config", "FILE.json", config_,
               "A config such as the config.json of a run; options override it");
  options.Flag("--paper", paper_,
               "The Performers paper's settings: positive features, drawn anew while training, "
               "learned positions, no convolution, no forgetting");
  RunConfig defaults;
  UseRecommended(defaults);
  fields_.Add(options, "Data", train::DataFields(defaults));
  fields_.Add(options, "Data", train::FormatFields(defaults.format));
  fields_.Add(options, "Model", models::ChosenFields(defaults.model), models::kSizeFields);
  fields_.Add(options, "Training", train::TrainFields(defaults.training));
}

void RunConfigOptions::AddModel(Options& options) {
  AddPreset(options);
  ModelConfig defaults;
  fields_.Add(options, "Model", models::ConfigFields(defaults), models::kSizeFields);
}

void RunConfigOptions::Apply(RunConfig& config) const {
  if (paper_) train::UsePaper(config);
  if (!preset_.empty()) models::ApplyPreset(preset_, config.model);
  if (!config_.empty())
    ReadRunConfig(io::OpenRegularFile(config_).ReadRest(models::kMaxConfigBytes), config_, config);
  fields_.Apply(train::RunFields(config));
}

RunConfig RunConfigOptions::BaseOfInit(const RunConfig& given) const {
  const train::StartingPoint start = train::OpenStart(given.init);
  RunConfig base = start.config;
  base.data = start.data;
  base.model.vocab = base.model.classes = 0;  // follow from the data
  std::error_code ignored;
  const bool same_data = !fields_.Given("data") || given.data == base.data ||
                         std::filesystem::equivalent(given.data, base.data, ignored);
  if (!same_data) {
    const DataFormat shares = base.format;
    base.format = base.format.Undivided();
    base.format.valid = shares.valid;
    base.format.test = shares.test;
  }
  const bool labels = fields_.Given("labels"),
             tokens =
                 fields_.Given("task") && !HasLabels(given.task) && !base.format.labels.empty(),
             others = labels || tokens;  // other targets: what belongs to the run's does not fit
  if (others) {
    base.format.labels = "";
    base.format.label_of = LabelOf::kSequence;
    base.training.class_weights = ClassWeights::kEqual;
    if (base.format.split_by == SplitRule::kStratified) base.format.split_by = SplitRule::kAuto;
  }
  if (labels) {  // of whole records
    base.format.layout = Layout::kClip;
    if (base.format.split_by == SplitRule::kPlace || base.format.split_by == SplitRule::kBlocks)
      base.format.split_by = SplitRule::kAuto;
  }
  // The same data in the same order: it continues where the other run was.
  const int64_t batch = fields_.Given("batch") ? given.training.batch : base.training.batch;
  base.training.first_batch =
      same_data && !others && !fields_.Given("seed") ? (start.sequences + batch - 1) / batch : 0;
  return base;
}

RunConfig RunConfigOptions::Fresh(OmegaType omega_type) const {
  RunConfig given;
  fields_.Apply(train::RunFields(given));
  if (paper_ && (!config_.empty() || !given.init.empty())) {
    Throw(ErrorCode::kInvalidOption, "train: --paper",
          "given with --config or --init, expected one: they say all that they mean");
  }
  RunConfig config;
  if (config_.empty() && !given.init.empty()) {
    config = BaseOfInit(given);
  } else if (config_.empty() && !paper_) {
    config.task = given.task;
    config.model.attention = given.model.attention;
    config.model.heads_of = given.model.heads_of;
    UseRecommended(config);
  }
  if (config_.empty() && given.init.empty()) config.model.features.omega_type = omega_type;
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
  for (const train::FormatFile& file : train::kFormatFiles) {
    if (!file.copy.empty())
      TakeCopy(folder, file.copy, stored.format.*file.path, config.format.*file.path);
  }
  FillDerived(stored, config);
  RunConfig in_folder = stored;
  const Json have = FieldsToJson(train::RunFields(in_folder)),
             want = FieldsToJson(train::RunFields(config));
  for (const auto& [key, value] : want.items()) {
    if (have[key] == value) continue;
    Throw(ErrorCode::kInvalidOption, "train", "{}: given {}, but the run in '{}' has {}", key,
          Printable(value.dump()), Printable(folder), Printable(have[key].dump()));
  }
  return config;
}

}  // namespace favor::cli
