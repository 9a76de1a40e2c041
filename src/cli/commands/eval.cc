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
  std::string model, data, labels;
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
  if (!subject.own && a.data.empty() && a.labels.empty()) {
    Warn(Printable(subject.name),
         "has changed since the model was trained; what was held out may have been learned from");
  }
  return subject;
}

Json ScoreJson(const Score& score, Task task) {
  Json json = {{"tokens", score.count}, {"loss", score.MeanLoss()}};
  if (task != Task::kRegress) json["accuracy"] = score.Accuracy();
  if (HasLabels(task)) return json;
  json["perplexity"] = score.Perplexity();
  json["bits_per_token"] = score.BitsPerToken();
  return json;
}

void PrintAsJson(const TrainedModel& trained, const Subject& subject, int64_t length,
                 const reports::Evaluation& evaluation) {
  Json json = ScoreJson(evaluation.score, trained.config.task);
  json["model"] = trained.path;
  json["step"] = trained.step;
  json["data"] = subject.name;
  json["own_data"] = subject.own;
  json["split"] = Name(subject.split);
  json["whole_split"] = evaluation.all;
  json["length"] = length;
  if (trained.config.task != Task::kRegress)
    json["baseline_accuracy"] =
        static_cast<double>(evaluation.most_frequent) / static_cast<double>(evaluation.score.count);
  json["token"] = subject.data->Unit();
  if (HasLabels(trained.config.task))
    json["labels"] = reports::ToJson(evaluation.labels, trained.classes);
  if (trained.config.task == Task::kMasked) {
    for (int kind = 0; kind < kMaskings; ++kind) {
      const Score& score = evaluation.by_masking[static_cast<size_t>(kind)];
      if (score.count > 0)
        json["by_masking"][std::string(Name(static_cast<Masking>(kind)))] =
            ScoreJson(score, trained.config.task);
    }
  }
  if (evaluation.words > 0) {
    json["tokens_per_word"] = evaluation.TokensPerWord();
    json["word_perplexity"] = evaluation.WordPerplexity();
    json["bits_per_character"] = evaluation.BitsPerCharacter();
  }
  PrintJson(json);
}

// Numbers are compared with always saying the mean of training.
void PrintLabels(const TrainedModel& trained, const reports::LabelEvaluation& labels) {
  if (labels.numbers) {
    const reports::NumberMetrics& of = *labels.numbers;
    fmt::print(
        "root mean squared error {:.4g} (deviation of the labels in training: {:.4g}), mean "
        "absolute error {:.4g}, R² {:.4f}, correlation {:.4f}, of ranks {:.4f}\n",
        of.rmse, trained.scale.deviation, of.mae, of.r2, of.pearson, of.spearman);
    return;
  }
  const reports::ClassMetrics& of = *labels.classes;
  fmt::print("means over classes: accuracy {:.4f}, F1 {:.4f}, AUROC {:.4f}\n",
             of.BalancedAccuracy(), of.MacroF1(), of.MacroAuroc());
  fmt::print("\n{}\n{}", ClassTable(of, trained.classes).ToText(),
             ConfusionTable(of, trained.classes).ToText());
}

// What was evaluated, and how large it is.
std::string Heading(const Subject& subject, const reports::Evaluation& evaluation) {
  return fmt::format("{}{} of {}{}: {} targets", evaluation.all ? "" : "a sample of ",
                     Name(subject.split), Printable(subject.name),
                     subject.own ? "" : " (not the data of the run)", evaluation.score.count);
}

void PrintAsText(const TrainedModel& trained, const Subject& subject,
                 const reports::Evaluation& evaluation) {
  const Score& score = evaluation.score;
  fmt::print("{}, step {}\n", Printable(trained.path), trained.step);
  fmt::print("{}", Heading(subject, evaluation));
  if (trained.config.task == Task::kRegress) {
    fmt::print(", loss {:.4f}\n", score.MeanLoss());
    return PrintLabels(trained, evaluation.labels);
  }
  fmt::print(", loss {:.4f}, accuracy {:.4f} (always the same answer: {:.4f})", score.MeanLoss(),
             score.Accuracy(),
             static_cast<double>(evaluation.most_frequent) / static_cast<double>(score.count));
  if (trained.config.task == Task::kClassify) {
    fmt::print("\n");
    return PrintLabels(trained, evaluation.labels);
  }
  fmt::print(", perplexity {:.3f}, {:.4f} bits per {}\n", score.Perplexity(), score.BitsPerToken(),
             subject.data->Unit());
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
  const Context context = a.run.Make();
  TrainedModel trained = LoadTrained(a.model, a.run.ModelPlacement());
  if (!a.labels.empty()) {
    if (trained.config.format.labels.empty())
      Throw(ErrorCode::kInvalidOption, "eval: --labels", "given for '{}', which learned no table",
            Printable(trained.path));
    if (a.data.empty() && trained.config.format.split_by == SplitRule::kStratified) {
      Throw(ErrorCode::kInvalidOption, "eval: --labels",
            "given without --data for a run whose labels say what is held out (split_by "
            "stratified)");
    }
    trained.config.format.labels = a.labels;
  }
  const Subject subject = Open(a, trained);
  const TrainConfig& training = trained.config.training;
  // Generated tasks have their own length.
  const int64_t length = subject.name.starts_with("task:") ? subject.data->Length(a.length)
                         : a.length == 0                   ? training.length
                                                           : a.length;
  reports::EvaluationOptions options{
      .split = subject.split, .batch = a.batch == 0 ? training.batch : a.batch, .length = length};
  if (a.batches > 0) options.batches = a.batches;
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
  options
      .Path("--labels", "TABLE.tsv", a.labels,
            "Labels of the data, for a model that has learned labels")
      .Default("the run's table");
  options.Choice("--split", a.split, "Part of the data")
      .Default("valid; all of data that is not the run's");
  options.Integer("--batch", {1, 1 << 20}, a.batch, "Sequences at a time").Default("the run's");
  options.Integer("--length", {1, int64_t{1} << 24}, a.length, "Tokens of a sequence")
      .Default("the run's");
  options.Integer("--batches", {1, int64_t{1} << 40}, a.batches, "Batches at most").Default("all");
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
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
