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
  for (const char* key :
       {"causal", "vocab", "classes", "ff", "positions", "max_length", "embedding_scale", "norm",
        "norm_epsilon", "activation", "tied", "convolution", "decay"})
    json.erase(key);
  return json;
}

// The path of a run's data, as it was given or as it is seen from the run's folder.
std::string FindSource(const RunConfig& config, const DataDescription& record,
                       const std::filesystem::path& folder) {
  std::error_code ignored;
  if (record.from_here.empty() || std::filesystem::exists(config.data, ignored)) return config.data;
  return (folder / record.from_here).lexically_normal().string();
}

}  // namespace

StartingPoint OpenStart(const std::string& path) {
  const auto checkpoint = models::OpenCheckpoint(path);
  StartingPoint start{.path = checkpoint->name()};
  ReadRunConfig(checkpoint->info().config, start.path, start.config);
  const std::filesystem::path folder = std::filesystem::path(start.path).parent_path();
  UseCopies(folder.string(), start.config.format);
  const Json state = ParseJson(checkpoint->info().state);
  const DataDescription record = DataDescription::FromJson(state);
  start.vocabulary = record.vocabulary;
  if (!start.config.data.empty()) start.data = FindSource(start.config, record, folder);
  if (state.is_object() && state.contains("step") && state["step"].is_number_unsigned()) {
    const TrainConfig& training = start.config.training;
    start.batches = training.first_batch +
                    std::min(state["step"].get<int64_t>(), training.steps) * training.accumulate;
  }
  start.network = checkpoint->MakeNetwork();
  return start;
}

StartReport CarryOver(const models::Network& from, models::Network& to, const Context& context) {
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
    if (found->second->shape == parameter->shape) {
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
  for (const auto& [source, target] : both)
    kernels::Copy({.from = source->value, .to = target->value}, context);
  to.parameters().Refresh(context);
  report.same_omega = OmegaConfig(from.config()) == OmegaConfig(to.config());
  if (report.same_omega) to.Redraw(from.seed(), from.redraw());
  return report;
}

void CheckVocabulary(const StartingPoint& start, const Dataset& data) {
  if (start.vocabulary.empty() || data.vocabulary() == nullptr ||
      start.vocabulary == data.vocabulary()->Fingerprint())
    return;
  Throw(ErrorCode::kInvalidOption, "init", "'{}' was trained with another vocabulary ({}, not {})",
        Printable(start.path), Printable(start.vocabulary),
        Printable(data.vocabulary()->Fingerprint()));
}

}  // namespace favor::train
