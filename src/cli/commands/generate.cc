// favor generate: a model continues a prompt.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/picture_files.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/progress.h"
#include "core/stopwatch.h"
#include "favor/generate.h"
#include "favor/train.h"
#include "io/input_file.h"
#include "train/run_folder.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, prompt_file, save_state, load_state, png;
  std::optional<std::string> prompt;
  int64_t tokens = -1, samples = 1, batch = 0;  // -1, 0: the default
  ContextArguments run;
  SamplingOptions sampling;
  bool json = false, quiet = false;
};

constexpr int64_t kUsualTokens = 256, kUsualBatchOnGpu = 64;
constexpr int64_t kMostBytesTogether = int64_t{4} << 30;  // unless --batch is given

std::string PromptText(const Arguments& a, const Vocabulary& vocabulary) {
  if (a.prompt_file.empty()) return a.prompt.value_or("");
  std::string text = a.prompt_file == io::kStandardInput ? io::ReadStandardInput()
                                                         : io::ReadRegularFile(a.prompt_file);
  // The line end that editors write is not a letter.
  while (vocabulary.special().begin && (text.ends_with('\n') || text.ends_with('\r')))
    text.pop_back();
  return text;
}

// `wanted` tokens, or as many as are left before learned positions or the picture end.
int64_t MostTokens(int64_t wanted, const TrainedModel& run, int64_t context) {
  int64_t end = INT64_MAX;
  if (run.config.model.positions == Positions::kLearned) end = run.config.model.max_length;
  if (run.vocabulary->name() == "pixels") end = run.config.training.length;
  return std::min(wanted, std::max<int64_t>(0, end - context + 1));
}

// What is read before the first token is drawn; after a kept prefix, only the text.
std::vector<int32_t> PromptTokens(const Arguments& a, const TrainedModel& run) {
  const std::string text = PromptText(a, *run.vocabulary),
                    who = a.prompt_file.empty()                 ? "generate: --prompt"
                          : a.prompt_file == io::kStandardInput ? "standard input"
                                                                : a.prompt_file;
  return Prompt(*run.vocabulary, a.load_state.empty() ? run.start : std::nullopt, text, who);
}

// Writes text as its tokens come. A character may take several tokens: nothing is written while the
// text ends in an incomplete character.
class StreamedText {
 public:
  explicit StreamedText(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void Add(int32_t token) {
    constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";
    constexpr size_t kMostPending = 4;  // a character has up to four bytes
    tokens_.push_back(token);
    // Decoded after the previous token: some vocabularies drop a space at the front of a text.
    const std::string before = vocabulary_.Decode(std::span(tokens_).first(anchor_)),
                      now = vocabulary_.Decode(tokens_);
    if (now.ends_with(kNoCharacter) && tokens_.size() - anchor_ < kMostPending) return;
    WriteOut(std::string_view(now).substr(std::min(before.size(), now.size())));
    tokens_ = {token};
    anchor_ = 1;
  }

 private:
  const Vocabulary& vocabulary_;
  std::vector<int32_t> tokens_;  // the last one written, and those not written yet
  size_t anchor_ = 0;
};

void CheckArguments(const Arguments& a) {
  if (a.prompt && !a.prompt_file.empty())
    Throw(ErrorCode::kInvalidOption, "generate", "given --prompt and --prompt-file, expected one");
  if (!a.png.empty() && !a.load_state.empty()) {
    Throw(ErrorCode::kInvalidOption, "generate",
          "given --png and --load-state, expected one: a kept prefix does not hold its pixels");
  }
  CheckSampling(a.sampling);
}

// Outputs that could not be written, or that are inputs, are refused before any work.
void CheckOutputs(const Arguments& a, const TrainedModel& run,
                  const std::optional<PictureFiles>& pictures) {
  std::vector<std::string> inputs =
      train::FilesOf(run.config, std::filesystem::path(run.path).parent_path().string());
  inputs.push_back(run.path);
  if (a.prompt_file != io::kStandardInput) inputs.push_back(a.prompt_file);
  inputs.push_back(a.load_state);
  CheckFiles("generate", {a.save_state}, inputs);
  for (int64_t i = 0; pictures && i < a.samples; ++i)
    CheckFiles("generate", {a.save_state, pictures->Path(i)}, inputs);
}

// The number of tokens that complete the prompt, which has a begin token in front, to a whole
// picture. Throws if --tokens is less, since part of a picture is not a picture.
int64_t TokensOfPicture(const Arguments& a, const PictureFiles& pictures, size_t prompt) {
  const auto read = static_cast<int64_t>(prompt) - 1;
  const int64_t left = pictures.Pixels() - read;
  if (left < 0) {
    Throw(ErrorCode::kInvalidOption, "generate: --prompt",
          "given {} values, expected at most {}, a picture of {}", read, pictures.Pixels(),
          pictures.shape());
  }
  if (a.tokens >= 0 && a.tokens < left) {
    Throw(ErrorCode::kInvalidOption, "generate: --tokens",
          "given {}, expected at least {} (or none) for a whole picture of {}", a.tokens, left,
          pictures.shape());
  }
  return left;
}

// Samples that are drawn at a time. Each has a copy of what is kept of the prefix.
int64_t TogetherOf(const Arguments& a, const Decoder& prefix) {
  const bool on_gpu = prefix.context().device().type == DeviceType::kCuda;
  const int64_t affordable = kMostBytesTogether / std::max<int64_t>(1, prefix.StateBytes());
  const int64_t usual = on_gpu ? std::clamp<int64_t>(affordable, 1, kUsualBatchOnGpu) : 1;
  return std::min(a.samples, a.batch > 0 ? a.batch : usual);
}

void Run(const Arguments& a) {
  CheckArguments(a);
  const Context context = a.run.Make();
  const TrainedModel run = LoadTrained(a.model, a.run.ModelPlacement());
  std::optional<PictureFiles> pictures;
  if (!a.png.empty()) pictures.emplace(run, a.png, a.samples);
  CheckOutputs(a, run, pictures);
  const Vocabulary& vocabulary = *run.vocabulary;
  Decoder decoder(run.model, context);
  if (!a.load_state.empty()) decoder.Load(a.load_state);
  const std::vector<int32_t> prompt = PromptTokens(a, run);
  if (prompt.empty() && decoder.tokens() == 0) {
    Throw(ErrorCode::kInvalidOption, "generate: --prompt",
          "given nothing, expected some text to continue");
  }
  const int64_t wanted = pictures        ? TokensOfPicture(a, *pictures, prompt.size())
                         : a.tokens >= 0 ? a.tokens
                                         : kUsualTokens;
  const Stopwatch prefill_watch;
  constexpr size_t kPiece = 4096;
  {
    Progress progress("read", static_cast<int64_t>(prompt.size()),
                      a.quiet || prompt.size() < kPiece);
    for (size_t at = 0; at < prompt.size(); at += kPiece) {
      const size_t count = std::min(kPiece, prompt.size() - at);
      decoder.Read(std::span(prompt).subspan(at, count));
      progress.Update(static_cast<int64_t>(at + count));
    }
  }
  const double prefill = prefill_watch.Seconds();
  if (!a.save_state.empty()) decoder.Save(a.save_state);

  const int64_t most = MostTokens(wanted, run, decoder.tokens());
  const bool records = vocabulary.special().begin.has_value();
  const bool text = !a.json && !pictures;  // on stdout
  const Stopwatch watch;
  int64_t drawn = 0;
  bool cut = false;  // some sample ended where learned positions end
  Json samples = Json::array();
  GenerateOptions options{.sampling = a.sampling, .tokens = most};
  options.sampling.seed = context.seed();
  options.sampling.never = run.unseen;
  const int64_t together = TogetherOf(a, decoder);
  std::vector<Generated> ready;  // the samples from `number` on, if several are drawn together
  for (int64_t number = 0; number < a.samples; ++number) {
    options.sample = static_cast<uint64_t>(number);
    const auto place = static_cast<size_t>(number % together);
    if (together > 1 && place == 0)
      ready =
          GenerateTogether(decoder, vocabulary, std::min(together, a.samples - number), options);
    if (text && records)
      WriteOut(fmt::format(">sample{}\n{}", number + 1, vocabulary.Decode(prompt)));
    StreamedText streamed(vocabulary);
    options.each = [&](int32_t token) {
      if (text) streamed.Add(token);
    };
    Generated sampled;
    if (together > 1) {
      sampled = std::move(ready[place]);
      std::ranges::for_each(sampled.tokens, options.each);
    } else {
      Decoder own = decoder.Clone();
      sampled = Generate(own, vocabulary, options);
    }
    drawn += static_cast<int64_t>(sampled.tokens.size());
    cut = cut || (!sampled.ended && most < wanted && vocabulary.name() != "pixels");
    if (pictures) {
      std::vector<int32_t> pixels(prompt.begin() + 1, prompt.end());
      pixels.insert(pixels.end(), sampled.tokens.begin(), sampled.tokens.end());
      pictures->Write(number, pixels);
    }
    if (a.json) {
      samples.push_back({{"text", vocabulary.Decode(sampled.tokens)},
                         {"tokens", sampled.tokens},
                         {"ended", sampled.ended}});
      if (pictures) samples.back()["png"] = pictures->Path(number);
    } else if (pictures) {
      WriteOut(fmt::format("{}: {}\n", Printable(pictures->Path(number)), pictures->shape()));
    } else {
      WriteOut(number + 1 < a.samples && !records ? "\n\n" : "\n");
    }
  }
  const double seconds = watch.Seconds();
  if (cut) {
    Warn("generate",
         "cut off after {} tokens, where the model's learned positions end (rotary and sinusoidal "
         "ones do not)",
         most);
  }
  const auto rate = [](auto tokens, double time) {
    return time > 0 ? static_cast<double>(tokens) / time : 0;
  };
  if (a.json) {
    PrintJson({{"samples", samples},
               {"prompt_tokens", prompt.size()},
               {"prefix_tokens", decoder.tokens()},
               {"prefill_tokens_per_second", rate(prompt.size(), prefill)},
               {"tokens_per_second", rate(drawn, seconds)},
               {"state_bytes", decoder.StateBytes()}});
    return;
  }
  if (a.quiet) return;
  Notice(fmt::format(
      "prefix: {} token{}, state {:.3f} MB; read {:.0f} tokens/s; generated {} tokens, {:.0f} "
      "tokens/s\n",
      decoder.tokens(), decoder.tokens() == 1 ? "" : "s",
      static_cast<double>(decoder.StateBytes()) / 1e6, rate(prompt.size(), prefill), drawn,
      rate(drawn, seconds)));
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--model", "PATH", a.model,
            "A checkpoint, or the folder of a run (its best checkpoint)")
      .Required();
  options.Text("--prompt", a.prompt, "What samples continue: text, letters, or numbers");
  options.Path("--prompt-file", "FILE", a.prompt_file,
               "The prompt from a file; -: from standard input");
  options
      .Integer("--tokens", {0, int64_t{1} << 32}, a.tokens,
               "Tokens at most; records end by themselves")
      .Default(fmt::format("{}; with --png a whole picture", kUsualTokens));
  options.Integer("--samples", {1, 1 << 20}, a.samples, "Continuations of the prompt");
  options
      .Integer("--batch", {1, 4096}, a.batch,
               "Samples that are drawn at a time: each pass reads the weights once for all of them")
      .Default(fmt::format(
          "1, so that text appears as it is drawn; on a GPU {}, or as many as keep {} GB",
          kUsualBatchOnGpu, kMostBytesTogether >> 30));
  options.Number("--temperature", a.sampling.temperature,
                 "Logits are divided by it; 0: always the likeliest token");
  options.Integer("--top-k", {0, 1 << 30}, a.sampling.top_k, "Only the k likeliest tokens; 0: all");
  options.Number("--top-p", a.sampling.top_p,
                 "Only the likeliest tokens that together have this probability");
  options.Path("--png", "FILE.png", a.png,
               "Write what a model of pixels generates as pictures; several samples: FILE-1.png, "
               "FILE-2.png, …");
  options.Path("--save-state", "FILE", a.save_state, "Keep the prefix as it is after the prompt");
  options.Path("--load-state", "FILE", a.load_state,
               "Continue from a kept prefix; the prompt follows it");
  a.run.Add(options);
  a.run.AddPlacement(options);
  options.Flag("--json", a.json, "Print samples and speed as JSON");
  options.Flag("--quiet", a.quiet, "No progress and no speed on stderr");
}

}  // namespace

Command GenerateCommand() {
  return {.name = "generate",
          .summary = "Continue a prompt with a trained model",
          .example =
              "favor generate --model run --prompt \"In the beginning\" --temperature 0.8\n"
              "  favor generate --model proteins --samples 3 --seed 7 > new.fasta\n"
              "  favor generate --model pictures --samples 3 --png new.png",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
