#include <filesystem>

#include "core/error_text.h"
#include "core/json.h"
#include "favor/train.h"
#include "models/checkpoint.h"

namespace favor {

TrainedModel LoadTrained(const std::string& path) {
  const auto checkpoint = models::OpenCheckpoint(path);
  RunConfig config;
  ReadRunConfig(checkpoint->info().config, checkpoint->name(), config);
  // The run's own copy, where it is: the file that it was made from may be gone.
  const auto copy =
      std::filesystem::path(checkpoint->name()).parent_path() / models::kTokenizerName;
  std::error_code ignored;
  if (!config.format.tokenizer.empty() && std::filesystem::exists(copy, ignored))
    config.format.tokenizer = copy.string();
  auto vocabulary = VocabularyOf(config.data, config.format);
  Model model(checkpoint->MakeNetwork());
  if (vocabulary->size() != model.config().vocab) {
    Throw(ErrorCode::kInvalidData, Printable(checkpoint->name()),
          "has a vocabulary of {} tokens, but {} of '{}' has {}", model.config().vocab,
          vocabulary->name(), Printable(config.data), vocabulary->size());
  }
  const auto state = ParseJson(checkpoint->info().state);
  if (state.is_object() && state.contains("vocabulary") &&
      state["vocabulary"] != vocabulary->Fingerprint()) {
    Throw(ErrorCode::kInvalidData, Printable(checkpoint->name()),
          "was trained with another vocabulary than that of '{}'",
          Printable(config.format.tokenizer.empty() ? config.data : config.format.tokenizer));
  }
  return {.config = config,
          .model = std::move(model),
          .vocabulary = std::move(vocabulary),
          .path = checkpoint->name(),
          .fingerprint = state.is_object() && state.contains("data") && state["data"].is_string()
                             ? state["data"].get<std::string>()
                             : "",
          .shape = state.is_object() && state.contains("shape") && state["shape"].is_string()
                       ? state["shape"].get<std::string>()
                       : ""};
}

}  // namespace favor
