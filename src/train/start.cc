#include "train/start.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "core/error_text.h"
#include "core/json.h"
#include "kernels/copy.h"
#include "models/checkpoint.h"
#include "models/config_fields.h"
#include "train/run_data.h"

namespace favor::train {
namespace {

// Output layers belong to what is predicted: another number of classes is another layer.
bool IsOutput(const std::string& name) {
  return name.starts_with("classifier.") || name.starts_with("output.");
}

// What ω depends on: all of the config but these.
Json OmegaConfig(const ModelConfig& config) {
  Json json = models::ToJson(config);
  for (const char* key : {"causal",       "vocab",        "classes",
                          "per_token",    "numbers",      "ff",
                          "positions",    "max_length",   "embedding_scale",
                          "norm",         "norm_epsilon", "activation",
                          "tied",         "convolution",  "decay",
                          "feed_forward", "ff_degree",    "ff_columns",
                          "ff_range",     "ff_fit",       "ff_exact_quadratic",
                          "ff_own_curves"})
    json.erase(key);
  return json;
}

// The path of a run's data as it is seen from the run's folder, or as it was given.
std::string FindSource(const RunConfig& config, const DataDescription& record,
                       const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path from_here = folder / record.from_here;
  if (record.from_here.empty() || !std::filesystem::exists(from_here, ignored)) return config.data;
  return from_here.lexically_normal().string();
}

// Sequences that a run has read after `steps` steps.
int64_t SequencesRead(const TrainConfig& training, const Json& state) {
  if (!state.is_object() || !state.contains("step") || !state["step"].is_number_unsigned())
    return 0;
  const auto steps = static_cast<int64_t>(
      std::min(state["step"].get<uint64_t>(), static_cast<uint64_t>(training.steps)));
  const double sequences = (static_cast<double>(training.first_batch) +
                            static_cast<double>(steps) * static_cast<double>(training.accumulate)) *
                           static_cast<double>(training.batch);
  return sequences < 0x1p40 ? static_cast<int64_t>(sequences) : 0;
}

}  // namespace

StartingPoint OpenStart(const std::string& path) {
  StartingPoint start{.checkpoint = models::OpenCheckpoint(path)};
  const std::string& name = start.checkpoint->name();
  ReadRunConfig(start.checkpoint->info().config, name, start.config);
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  UseCopies(folder.string(), start.config.format);
  const Json state = ParseJson(start.checkpoint->info().state);
  const DataDescription record = DataDescription::FromJson(state);
  start.vocabulary = record.vocabulary;
  start.fingerprint = record.fingerprint;
  start.classes = record.classes;
  start.scale = record.scale;
  if (!start.config.data.empty()) start.data = FindSource(start.config, record, folder);
  start.sequences = SequencesRead(start.config.training, state);
  return start;
}

StartReport CarryOver(const models::Network& from, models::Network& to, bool outputs,
                      const Context& context) {
  std::map<std::string_view, const layers::Parameter*> given;
  for (const auto& parameter : from.parameters().all()) given[parameter->name] = parameter.get();
  StartReport report;
  std::vector<std::pair<const layers::Parameter*, layers::Parameter*>> both;
  for (const auto& parameter : to.parameters().all()) {
    const auto found = given.find(parameter->name);
    if (found == given.end()) {
      report.drawn.push_back(parameter->name);
      continue;
    }
    const bool wanted = outputs || !IsOutput(parameter->name);
    if (wanted && found->second->shape == parameter->shape) {
      both.emplace_back(found->second, parameter.get());
    } else if (IsOutput(parameter->name)) {
      report.drawn.push_back(parameter->name);
    } else {
      Throw(ErrorCode::kInvalidOption, "init", "{} is {} there, but {} in the model of this run",
            parameter->name, found->second->shape.ToString(), parameter->shape.ToString());
    }
    given.erase(found);
  }
  for (const auto& [name, ignored] : given) report.unused.emplace_back(name);
  if (both.empty())
    Throw(ErrorCode::kInvalidOption, "init", "the models have no parameter in common");
  if (from.parameters().device() != to.parameters().device())
    Throw(ErrorCode::kInvalidOption, "init", "given a model on {}, expected one on {}",
          Name(from.parameters().device()), Name(to.parameters().device()));
  for (const auto& [source, target] : both)
    kernels::Copy({.from = source->value, .to = target->value}, context);
  to.parameters().Refresh(context);
  report.same_omega = OmegaConfig(from.config()) == OmegaConfig(to.config());
  if (report.same_omega) to.Redraw(from.seed(), from.redraw());
  return report;
}

void CheckData(const StartingPoint& start, const RunConfig& config, const Dataset& data) {
  const std::string path = Printable(start.checkpoint->name());
  if (!start.vocabulary.empty() && data.vocabulary() != nullptr &&
      start.vocabulary != data.vocabulary()->Fingerprint()) {
    Throw(ErrorCode::kInvalidOption, "init",
          "'{}' was trained with another vocabulary ({}, not {})", path,
          Printable(start.vocabulary), Printable(data.vocabulary()->Fingerprint()));
  }
  if (HasLabels(config.task) && start.config.model.causal != config.model.causal) {
    Throw(ErrorCode::kInvalidOption, "init", "'{}' is {}, expected {}, as the config says", path,
          start.config.model.causal ? "a decoder" : "an encoder",
          config.model.causal ? "a decoder" : "an encoder");
  }
  const bool same = start.fingerprint.empty() ? start.config.data == config.data  // a task
                                              : start.fingerprint == data.Fingerprint();
  if (config.training.first_batch > 0 && !start.config.data.empty() && !same) {
    Throw(ErrorCode::kInvalidData, Printable(config.data),
          "is not what '{}' was trained on, or has changed, and its order cannot be continued: "
          "expected the same data, or other data by its name (--data)",
          path);
  }
}

bool SameOutputs(const StartingPoint& start, const RunConfig& config, const Dataset& data) {
  if (!HasLabels(config.task)) return true;
  const ModelConfig &own = start.config.model, &here = config.model;
  if (own.numbers != here.numbers || own.per_token != here.per_token) return false;
  return here.numbers ? start.scale == data.Scale() : start.classes == data.ClassNames();
}

}  // namespace favor::train
