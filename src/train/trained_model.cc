#include <filesystem>

#include "core/access.h"
#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "models/checkpoint.h"
#include "train/run_data.h"

namespace favor {

TrainedModel LoadTrained(const std::string& path, const Placement& placement) {
  const auto checkpoint = models::OpenCheckpoint(path);
  const std::string& name = checkpoint->name();
  RunConfig config;
  ReadRunConfig(checkpoint->info().config, name, config);
  if (config.data.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "holds only a model, not what its tokens stand for, expected a checkpoint of a run");
  }
  train::UseCopies(std::filesystem::path(name).parent_path().string(), config.format);
  auto vocabulary = VocabularyOf(config.data, config.format);
  auto model = internal::Access::Make<Model>(checkpoint->MakeNetwork(placement));
  if (vocabulary->size() != model.config().vocab) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "has a vocabulary of {} tokens, but {} of '{}' has {}", model.config().vocab,
          vocabulary->name(), Printable(config.data), vocabulary->size());
  }
  const Json state = ParseJson(checkpoint->info().state);
  const train::DataDescription record = train::DataDescription::FromJson(state);
  if (!record.vocabulary.empty() && record.vocabulary != vocabulary->Fingerprint()) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "was trained with a vocabulary other than that of '{}'",
          Printable(config.format.tokenizer.empty() ? config.data : config.format.tokenizer));
  }
  const ModelConfig& own = model.config();
  const bool classes = record.classes.empty() || std::ssize(record.classes) == own.classes;
  if (!classes || (own.numbers && !record.scale))
    Throw(ErrorCode::kInvalidData, Printable(name), "damaged: it does not say what it predicts");
  const bool step = state.is_object() && state.contains("step") &&
                    state["step"].is_number_unsigned() && state["step"] <= INT64_MAX;
  const auto start = train::StartToken(config, *vocabulary, record);
  auto unseen = record.Unseen(vocabulary->size());
  return {.config = config,
          .model = std::move(model),
          .vocabulary = std::move(vocabulary),
          .path = name,
          .step = step ? state["step"].get<int64_t>() : 0,
          .fingerprint = record.fingerprint,
          .content = record.content,
          .shape = record.shape,
          .data_from_here = record.from_here,
          .start = start,
          .unseen = std::move(unseen),
          .classes = record.classes,
          .scale = record.scale.value_or(LabelScale())};
}

std::shared_ptr<const Dataset> OpenDataOf(const TrainedModel& trained, const std::string& hint) {
  const auto data =
      train::FindData(trained.config, std::filesystem::path(trained.path).parent_path().string(),
                      {.fingerprint = trained.fingerprint,
                       .content = trained.content,
                       .from_here = trained.data_from_here,
                       .classes = trained.classes,
                       .scale = trained.scale},
                      hint);
  const std::string& name = hint.empty() ? trained.config.data : hint;
  const ModelConfig& model = trained.model.config();
  if (data->vocab() != model.vocab || data->classes() != model.classes) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "has {} tokens and {} classes, but the model was trained with {} and {}", data->vocab(),
          data->classes(), model.vocab, model.classes);
  }
  if (!trained.shape.empty() && data->Shape() != trained.shape) {
    Throw(ErrorCode::kInvalidData, Printable(name),
          "holds pictures of {} (height, width, channels), but the model was trained on {}",
          data->Shape(), trained.shape);
  }
  return data;
}

}  // namespace favor
