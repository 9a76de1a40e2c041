#include "reports/samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "data/picture_size.h"
#include "favor/generate.h"
#include "io/png.h"

namespace favor::reports {
namespace {

struct Drawn {
  std::vector<int32_t> tokens;
  std::string prompt, text;
  bool ended = false;

  std::string ToText(size_t number) const {
    if (!prompt.empty()) return fmt::format("[{}]{}\n—\n", prompt, text);
    return fmt::format(">sample {}{}\n{}\n", number, ended ? "" : " (cut off)", text);
  }
};

std::vector<int32_t> HeldOutStart(const Subject& subject, int64_t number) {
  constexpr size_t kTokens = 24;
  const int64_t length = subject.run.config.training.length;
  const int64_t sequences = subject.data->Batches(subject.split, 1, length);
  std::vector<int32_t> tokens =
      subject.data
          ->EvalBatch(subject.split, {.index = number % sequences, .batch = 1, .length = length})
          .tokens;
  std::erase(tokens, subject.trained.vocabulary->special().padding);
  tokens.resize(std::min(tokens.size(), kTokens));
  return tokens;
}

Drawn Draw(const Subject& subject, int64_t number, int64_t most, const Context& context) {
  const TrainedModel& trained = subject.trained;
  const Vocabulary& vocabulary = *trained.vocabulary;
  Drawn drawn;
  std::vector<int32_t> prompt = Prompt(vocabulary, trained.start, "");
  if (prompt.empty()) {
    prompt = HeldOutStart(subject, number);
    drawn.prompt = vocabulary.Decode(prompt);
  }
  if (trained.config.model.positions == Positions::kLearned)
    most = std::min(most, trained.config.model.max_length - std::ssize(prompt) + 1);
  Decoder decoder(trained.model, context);
  decoder.Read(prompt);
  const Generated generated = Generate(decoder, vocabulary,
                                       {.sampling = {.never = trained.unseen},
                                        .tokens = most,
                                        .sample = static_cast<uint64_t>(number)});
  drawn.tokens = generated.tokens;
  drawn.text = vocabulary.Decode(generated.tokens);
  drawn.ended = generated.ended;
  return drawn;
}

// Replaces invalid UTF-8 and control characters, which would break the page.
std::string ValidText(const std::string& text) {
  std::string valid = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
                          .get<std::string>();
  std::ranges::replace_if(
      valid, [](unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == 127; }, ' ');
  return valid;
}

}  // namespace

bool CanGenerate(const Subject& subject) {
  const ModelConfig& model = subject.trained.config.model;
  return model.causal && model.classes == 0 && subject.trained.vocabulary->name() != "numbers";
}

void AddSamples(const Subject& subject, const SampleOptions& options, const Context& context,
                Report& report) {
  const int64_t pixels = subject.run.config.training.length;
  const auto size = data::PictureSize::Parse(subject.trained.shape, pixels);
  report.AddText(fmt::format("{}, temperature 1{}:", subject.run.Name(),
                             subject.trained.start
                                 ? ""
                                 : ", continuing the beginning of held-out sequences (in "
                                   "brackets)"));
  std::string text;
  for (int64_t i = 0; i < options.samples; ++i) {
    const Drawn drawn = Draw(subject, i, size ? pixels : options.tokens, context);
    if (!size) {
      text += drawn.ToText(static_cast<size_t>(i) + 1);
      continue;
    }
    report.AddPicture(io::EncodePng({.height = size->height,
                                     .width = size->width,
                                     .channels = size->channels,
                                     .pixels = {drawn.tokens.begin(), drawn.tokens.end()}}),
                      fmt::format("sample {}", i + 1));
  }
  if (!size) report.AddPreformatted(ValidText(text));
}

}  // namespace favor::reports
