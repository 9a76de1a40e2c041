// favor eval: how well a model predicts data it has not learned from.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/progress.h"
#include "favor/train.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data, split = "valid";
  int64_t batch = 0, length = 0, batches = 0;
  ContextArguments run;
  bool json = false, quiet = false;
};

void Run(const Arguments& a) {
  TrainedModel trained = LoadTrained(a.model);
  RunConfig& run = trained.config;  // that the model was trained with
  const Model& model = trained.model;
  if (!a.data.empty()) {
    run.data = a.data;
    run.format.held_out.clear();  // a list of the run's own data
  }
  const auto data = OpenData(run);
  if (a.data.empty() && !trained.fingerprint.empty() &&
      data->Fingerprint() != trained.fingerprint) {
    Warn(Printable(run.data),
         "has changed since the model was trained; what was held out may have been learned from");
  }
  if (data->vocab() != model.config().vocab || data->classes() != model.config().classes) {
    Throw(ErrorCode::kInvalidData, Printable(run.data),
          "has {} tokens and {} classes, but the model was trained with {} and {}", data->vocab(),
          data->classes(), model.config().vocab, model.config().classes);
  }
  const int64_t batch = a.batch == 0 ? run.training.batch : a.batch;
  // Generated tasks have a length of their own.
  const bool own = run.data.starts_with("task:");
  const int64_t length = own             ? data->Length(a.length)
                         : a.length == 0 ? run.training.length
                                         : a.length;
  const Split split = SplitNamed(a.split);
  const int64_t all = data->Batches(split, batch, length);
  const int64_t batches = a.batches == 0 ? all : std::min(all, a.batches);
  const Context context = a.run.Make();
  Progress progress("eval", batches, a.quiet);
  Score score;
  std::map<int32_t, int64_t> frequency;  // of targets
  for (int64_t i = 0; i < batches; ++i) {
    const Batch part = data->EvalBatch(split, {.index = i, .batch = batch, .length = length});
    score += model.Evaluate(part, context);
    for (const int32_t target : part.targets) frequency[target] += target != kNoTarget ? 1 : 0;
    progress.Update(i + 1, fmt::format("loss {:.4f}", score.MeanLoss()));
  }
  if (score.count == 0)
    Throw(ErrorCode::kInvalidData, Printable(run.data), "its {} split holds nothing to ask for{}",
          a.split,
          split == Split::kHeldOut ? " (a list for it is given with train --held-out)" : "");
  // Of an answer that is always the same: the most frequent target.
  int64_t most = 0;
  for (const auto& [target, count] : frequency) most = std::max(most, count);
  const double baseline = static_cast<double>(most) / static_cast<double>(score.count);
  const SplitSummary summary = data->Summary(split);
  // Per word and character of the original text (Performers paper, A.1.1): a loss a token says
  // little across vocabularies.
  const bool words = summary.words > 0 && run.task == "causal";
  const double word_perplexity = std::exp(score.MeanLoss() * summary.TokensPerWord()),
               bits_per_character = score.BitsPerToken() * summary.TokensPerCharacter();
  if (a.json) {
    Json json = {{"model", trained.path},
                 {"data", run.data},
                 {"split", a.split},
                 {"length", length},
                 {"tokens", score.count},
                 {"loss", score.MeanLoss()},
                 {"accuracy", score.Accuracy()},
                 {"baseline_accuracy", baseline},
                 {"perplexity", score.Perplexity()},
                 {"bits_per_token", score.BitsPerToken()},
                 {"token", data->Unit()}};
    if (words) {
      json["tokens_per_word"] = summary.TokensPerWord();
      json["word_perplexity"] = word_perplexity;
      json["bits_per_character"] = bits_per_character;
    }
    return PrintJson(json);
  }
  fmt::print(
      "{} of {}: {} targets, loss {:.4f}, accuracy {:.4f} (always the same answer: {:.4f}), "
      "perplexity {:.3f}, {:.4f} bits a {}\n",
      a.split, Printable(run.data), score.count, score.MeanLoss(), score.Accuracy(), baseline,
      score.Perplexity(), score.BitsPerToken(), data->Unit());
  if (words) {
    fmt::print("words: {:.3f} tokens each, perplexity {:.4g}; {:.4f} bits a character\n",
               summary.TokensPerWord(), word_perplexity, bits_per_character);
  }
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--model", "PATH", a.model,
            "A checkpoint, or the folder of a run (its best checkpoint)")
      .Required();
  options.Path("--data", "FILE|task:NAME", a.data, "Data instead of the run's own");
  options.Choice("--split", {SplitNames().begin(), SplitNames().end()}, a.split,
                 "Part of the data");
  options.Integer("--batch", {1, 1 << 20}, a.batch, "Sequences at a time").Default("the run's");
  options.Integer("--length", {1, int64_t{1} << 24}, a.length, "Tokens of a sequence")
      .Default("the run's");
  options.Integer("--batches", {1, int64_t{1} << 40}, a.batches, "Batches at most").Default("all");
  a.run.AddThreads(options);
  options.Flag("--json", a.json, "Print the result as JSON");
  options.Flag("--quiet", a.quiet, "No progress on stderr");
}

}  // namespace

Command EvalCommand() {
  return {.name = "eval",
          .summary = "Measure how well a trained model predicts",
          .example = "favor eval --model run --split test --json",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
