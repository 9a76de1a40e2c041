// favor score: how likely sequences are to a model.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/notice.h"
#include "core/progress.h"
#include "favor/likelihood.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data, out;
  LikelihoodOptions likelihood;
  ContextArguments run;
  bool windows = false, quiet = false;
};

// A target as a person reads it.
std::string Shown(const Vocabulary& vocabulary, const Record& record, int64_t place) {
  if (place == std::ssize(record.tokens)) return "<end>";
  return vocabulary.Show(record.tokens[static_cast<size_t>(place)]);
}

class Table {
 public:
  Table(const Arguments& a, const TrainedModel& trained)
      : out_(a.out), vocabulary_(*trained.vocabulary), tokens_(a.likelihood.tokens) {
    out_.Write(tokens_ ? "id\tposition\ttoken\tlog_likelihood\n"
                       : "id\tlength\ttargets\tlog_likelihood\tperplexity\n");
  }

  void Add(const Likelihood& likelihood) {
    const Record& record = likelihood.record;
    const std::string name = Printable(record.name);
    // Tokens of text begin with one that belongs to what is before them.
    const int64_t before = vocabulary_.special().begin ? 0 : 1;
    if (!tokens_) {
      return out_.Write(fmt::format(
          "{}\t{}\t{}\t{:.6f}\t{}\n", name, std::ssize(record.tokens) - before, likelihood.targets,
          likelihood.sum,
          likelihood.targets == 0 ? "" : fmt::format("{:.6f}", likelihood.Perplexity())));
    }
    for (size_t i = 0; i < likelihood.places.size(); ++i) {
      out_.Write(fmt::format("{}\t{}\t{}\t{:.6f}\n", name, likelihood.places[i] + 1 - before,
                             Shown(vocabulary_, record, likelihood.places[i]),
                             likelihood.log_likelihoods[i]));
    }
  }
  void Finish() { out_.Finish(); }

 private:
  TextOutput out_;
  const Vocabulary& vocabulary_;
  bool tokens_;
};

// Says what it will cost, and what will be left out.
void Announce(const Arguments& a, const TrainedModel& trained, const LikelihoodWork& work) {
  if (work.clipped > 0) {
    Warn(Printable(a.data),
         "{} of {} records are longer than the length of {}: {} of their tokens are not scored "
         "(--layout crop scores all, in pieces; --length N reads longer sequences)",
         work.clipped, work.records,
         a.likelihood.length == 0 ? trained.config.training.length : a.likelihood.length,
         work.left_out);
  }
  if (trained.model.config().causal || a.quiet) return;
  Notice(fmt::format(
      "score: {} passes over {} sequences, {}\n", work.passes, work.sequences,
      a.likelihood.every == 0
          ? "one for each token (--every 16 hides every 16th at once: 16 passes per sequence)"
          : fmt::format("{} for each", a.likelihood.every)));
}

void Run(const Arguments& a) {
  CheckFiles("score", {a.out}, {a.data});
  const TrainedModel trained = LoadTrained(a.model);
  const int64_t length =
      a.likelihood.length == 0 ? trained.config.training.length : a.likelihood.length;
  const auto reader = OpenRecordsFor(trained, a.data, a.windows ? length : 0);
  const LikelihoodWork work = CountWork(trained, *reader, a.likelihood);
  Announce(a, trained, work);
  const Context context = a.run.Make();
  Table table(a, trained);
  Progress progress("score", work.targets, a.quiet || a.out.empty());
  int64_t targets = 0;
  double sum = 0;
  Likelihoods(trained, *reader, a.likelihood, context, [&](const Likelihood& likelihood) {
    table.Add(likelihood);
    targets += likelihood.targets;
    sum += likelihood.sum;
    progress.Update(targets, fmt::format("loss {:.4f}", -sum / static_cast<double>(targets)));
  });
  table.Finish();
  if (a.quiet) return;
  Notice(fmt::format("score: {} records, {} targets, loss {:.6f}\n", work.records, targets,
                     -sum / static_cast<double>(targets)));
}

void Declare(Options& options, Arguments& a) {
  options
      .Path("--model", "PATH", a.model,
            "A checkpoint, or the folder of a run (its best checkpoint)")
      .Required();
  options
      .Path("--data", "FILE", a.data,
            "Sequences: FASTA, text or pictures, as the model was trained on; -: standard input")
      .Required();
  options.Path("--out", "FILE.tsv", a.out, "Where the table goes").Default("standard output");
  options.Flag("--positions", a.likelihood.tokens, "A row for each token instead of each sequence");
  options.Flag("--windows", a.windows,
               "Text: sequences are windows of the length, as favor eval reads them, not lines");
  options
      .Choice("--layout", a.likelihood.layout,
              "Records beyond the length: clip leaves the rest out, crop reads it in pieces")
      .Default("the run's; crop for text and joined records");
  options.Integer("--length", {1, int64_t{1} << 24}, a.likelihood.length, "Tokens of a sequence")
      .Default("the run's");
  options
      .Integer("--every", {1, int64_t{1} << 24}, a.likelihood.every,
               "Encoders: hide every Nth token at once, in N passes per sequence")
      .Default("one pass per token");
  options.Integer("--batch", {1, 1 << 20}, a.likelihood.batch, "Sequences at a time")
      .Default("the run's");
  a.run.AddThreads(options);
  options.Flag("--quiet", a.quiet, "No progress on stderr");
}

}  // namespace

Command ScoreCommand() {
  return {.name = "score",
          .summary = "Log-likelihoods of sequences, in the order of the file",
          .example = "favor score --model run --data mine.fasta --out scores.tsv",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
