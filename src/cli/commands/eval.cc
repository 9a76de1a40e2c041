// favor eval: how well a model predicts data it has not learned from.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/progress.h"
#include "favor/train.h"
#include "reports/evaluation.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data;
  std::optional<Split> split;
  int64_t batch = 0, length = 0, batches = 0;
  ContextArguments run;
  bool json = false, quiet = false;
};

struct Subject {
  std::shared_ptr<const Dataset> data;
  std::string name;  // path or task name of the data
  bool own = true;   // whether it is the data that the model was trained on
  Split split = Split::kValid;
};

// Data that the model was trained on is divided as it was then; other data is evaluated as a whole
// unless a split is named.
Subject Open(const Arguments& a, TrainedModel& trained) {
  Subject subject{.name = a.data.empty() ? trained.config.data : a.data};
  const bool task = subject.name.starts_with("task:");
  if (!a.data.empty() && !task && a.split.value_or(Split::kAll) == Split::kAll) {
    const DataFormat divided = trained.config.format;
    trained.config.format = divided.Undivided();
    subject.data = OpenDataOf(trained, a.data);
    subject.own = !trained.content.empty() && subject.data->Content() == trained.content;
    subject.split = Split::kAll;
    trained.config.format = divided;
    if (!subject.own || a.split) return subject;
  }
  subject.split = a.split.value_or(Split::kValid);
  subject.data = OpenDataOf(trained, a.data);
  subject.own = trained.fingerprint.empty() || subject.data->Fingerprint() == trained.fingerprint;
  if (!subject.own && a.data.empty()) {
    Warn(Printable(subject.name),
         "has changed since the model was trained; what was held out may have been learned from");
  }
  return subject;
}

Json ScoreJson(const Score& score) {
  return {{"tokens", score.count},
          {"loss", score.MeanLoss()},
          {"accuracy", score.Accuracy()},
          {"perplexity", score.Perplexity()},
          {"bits_per_token", score.BitsPerToken()}};
}

void PrintAsJson(const TrainedModel& trained, const Subject& subject, int64_t length,
                 const reports::Evaluation& evaluation) {
  Json json = ScoreJson(evaluation.score);
  json["model"] = trained.path;
  json["step"] = trained.step;
  json["data"] = subject.name;
  json["own_data"] = subject.own;
  json["split"] = Name(subject.split);
  json["whole_split"] = evaluation.all;
  json["length"] = length;
  json["baseline_accuracy"] =
      static_cast<double>(evaluation.most_frequent) / static_cast<double>(evaluation.score.count);
  json["token"] = subject.data->Unit();
  if (trained.config.task == Task::kMasked) {
    for (int kind = 0; kind < kMaskings; ++kind) {
      const Score& score = evaluation.by_masking[static_cast<size_t>(kind)];
      if (score.count > 0)
        json["by_masking"][std::string(Name(static_cast<Masking>(kind)))] = ScoreJson(score);
    }
  }
  if (evaluation.words > 0) {
    json["tokens_per_word"] = evaluation.TokensPerWord();
    json["word_perplexity"] = evaluation.WordPerplexity();
    json["bits_per_character"] = evaluation.BitsPerCharacter();
  }
  PrintJson(json);
}

void PrintAsText(const TrainedModel& trained, const Subject& subject,
                 const reports::Evaluation& evaluation) {
  const Score& score = evaluation.score;
  fmt::print("{}, step {}\n", Printable(trained.path), trained.step);
  fmt::print(
      "{}{} of {}{}: {} targets, loss {:.4f}, accuracy {:.4f} (always the same answer: {:.4f}), "
      "perplexity {:.3f}, {:.4f} bits per {}\n",
      evaluation.all ? "" : "a sample of ", Name(subject.split), Printable(subject.name),
      subject.own ? "" : " (not the data of the run)", score.count, score.MeanLoss(),
      score.Accuracy(),
      static_cast<double>(evaluation.most_frequent) / static_cast<double>(score.count),
      score.Perplexity(), score.BitsPerToken(), subject.data->Unit());
  if (trained.config.task == Task::kMasked) {
    for (int kind = 0; kind < kMaskings; ++kind) {
      const Score& part = evaluation.by_masking[static_cast<size_t>(kind)];
      if (part.count == 0) continue;
      fmt::print("{}: {} targets, loss {:.4f}, accuracy {:.4f}\n", Name(static_cast<Masking>(kind)),
                 part.count, part.MeanLoss(), part.Accuracy());
    }
  }
  if (evaluation.words > 0) {
    fmt::print("words: {:.3f} tokens each, perplexity {:.4g}; {:.4f} bits per character\n",
               evaluation.TokensPerWord(), evaluation.WordPerplexity(),
               evaluation.BitsPerCharacter());
  }
}

void Run(const Arguments& a) {
  TrainedModel trained = LoadTrained(a.model);
  const Subject subject = Open(a, trained);
  const TrainConfig& training = trained.config.training;
  // Generated tasks have their own length.
  const int64_t length = subject.name.starts_with("task:") ? subject.data->Length(a.length)
                         : a.length == 0                   ? training.length
                                                           : a.length;
  reports::EvaluationOptions options{
      .split = subject.split, .batch = a.batch == 0 ? training.batch : a.batch, .length = length};
  if (a.batches > 0) options.batches = a.batches;
  const Context context = a.run.Make();
  Progress progress("eval", reports::BatchesOf(*subject.data, options), a.quiet);
  options.each = [&](int64_t done, const Score& score) {
    progress.Update(done, fmt::format("loss {:.4f}", score.MeanLoss()));
  };
  const reports::Evaluation evaluation =
      reports::Evaluate(trained.model, *subject.data, options, context);
  if (evaluation.score.count == 0) {
    Throw(
        ErrorCode::kInvalidData, Printable(subject.name), "its {} split has no targets{}",
        Name(subject.split),
        options.split == Split::kHeldOut ? " (a list for it is given with train --held-out)" : "");
  }
  if (a.json) return PrintAsJson(trained, subject, length, evaluation);
  PrintAsText(trained, subject, evaluation);
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--model", "PATH", a.model,
            "A checkpoint, or the folder of a run (its best checkpoint)")
      .Required();
  options.Path("--data", "FILE|task:NAME", a.data,
               "Data other than the run's, or where the run's data is now");
  options.Choice("--split", a.split, "Part of the data")
      .Default("valid; all of data that is not the run's");
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
