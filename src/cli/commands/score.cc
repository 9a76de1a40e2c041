// favor score: how likely sequences are to a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/notice.h"
#include "core/progress.h"
#include "favor/likelihood.h"
#include "favor/mutations.h"
#include "io/atomic_file.h"
#include "reports/heat_map.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data, out;
  std::string compare, heat_map;
  std::optional<std::string> mutations, record;
  LikelihoodOptions likelihood;
  ContextArguments run;
  bool windows = false, quiet = false;
};

constexpr std::string_view kAll = "all";  // every substitution

// A target as a person reads it.
std::string Shown(const Vocabulary& vocabulary, const Record& record, int64_t place) {
  if (place == std::ssize(record.tokens)) return "<end>";
  return vocabulary.Show(record.tokens[static_cast<size_t>(place)]);
}

class Table {
 public:
  // `base`: the log-likelihood that others are compared with, if any.
  Table(const Arguments& a, const TrainedModel& trained, std::optional<double> base)
      : out_(a.out), vocabulary_(*trained.vocabulary), tokens_(a.likelihood.tokens), base_(base) {
    out_.Write(tokens_ ? "id\tposition\ttoken\tlog_likelihood\n"
               : base  ? "id\tlength\ttargets\tlog_likelihood\tperplexity\tdifference\n"
                       : "id\tlength\ttargets\tlog_likelihood\tperplexity\n");
  }

  void Add(const Likelihood& likelihood) {
    const Record& record = likelihood.record;
    const std::string name = Printable(record.name);
    // Tokens of text begin with one that belongs to what is before them.
    const int64_t before = vocabulary_.special().begin ? 0 : 1;
    if (!tokens_) {
      return out_.Write(
          fmt::format("{}\t{}\t{}\t{:.6f}\t{}{}\n", name, std::ssize(record.tokens) - before,
                      likelihood.targets, likelihood.sum,
                      likelihood.targets == 0 ? "" : fmt::format("{:.6f}", likelihood.Perplexity()),
                      base_ ? fmt::format("\t{:.6f}", likelihood.sum - *base_) : ""));
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
  std::optional<double> base_;
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

// Scores all records of a reader.
void ScoreAll(const Arguments& a, const TrainedModel& trained, RecordReader& reader,
              std::optional<double> base, const Context& context) {
  const LikelihoodWork work = CountWork(trained, reader, a.likelihood);
  Announce(a, trained, work);
  Table table(a, trained, base);
  Progress progress("score", work.targets, a.quiet || a.out.empty());
  int64_t targets = 0;
  double sum = 0;
  Likelihoods(trained, reader, a.likelihood, context, [&](const Likelihood& likelihood) {
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

// The log-likelihood of the one record that others are compared with.
double BaseOf(const Arguments& a, const TrainedModel& trained, RecordReader& reader,
              const Context& context) {
  const Record record = ReadOneRecord(reader, a.record.value_or(""));
  return LikelihoodOf(trained, record, a.likelihood, context).sum;
}

reports::HeatMap HeatMapOf(const TrainedModel& trained, const Record& wild_type,
                           std::span<const Variant> variants, std::span<const double> effects) {
  const Vocabulary& vocabulary = *trained.vocabulary;
  reports::HeatMap map{
      .title = fmt::format("{}: log p(mutant) − log p(wild type)", Printable(wild_type.name)),
      .scale = "nats; grey: the wild type"};
  int32_t letters = 0;
  for (const Variant& variant : variants)
    letters = std::max(letters, variant.substitutions.front().to + 1);
  for (int32_t letter = 0; letter < letters; ++letter) map.rows.push_back(vocabulary.Show(letter));
  for (const int32_t token : wild_type.tokens) map.columns.push_back(vocabulary.Show(token));
  map.values.assign(map.rows.size(), std::vector<double>(map.columns.size(), std::nan("")));
  for (size_t i = 0; i < variants.size(); ++i) {
    const Substitution& substitution = variants[i].substitutions.front();
    map.values[static_cast<size_t>(substitution.to)][static_cast<size_t>(substitution.place)] =
        effects[i];
  }
  return map;
}

void ScoreMutations(const Arguments& a, const TrainedModel& trained, RecordReader& reader,
                    const Context& context) {
  const Record wild_type = ReadOneRecord(reader, a.record.value_or(""));
  const std::vector<Variant> variants = a.mutations == kAll
                                            ? AllSubstitutions(trained, wild_type)
                                            : ParseVariants(*a.mutations, trained, wild_type);
  Progress progress("score", std::ssize(variants), a.quiet || a.out.empty());
  const std::vector<double> effects =
      VariantEffects(trained, wild_type, variants, a.likelihood, context,
                     [&](int64_t done) { progress.Update(done); });
  TextOutput out(a.out);
  out.Write("variant\tdifference\n");
  for (size_t i = 0; i < variants.size(); ++i)
    out.Write(fmt::format("{}\t{:.6f}\n", variants[i].name, effects[i]));
  if (!a.heat_map.empty()) {
    io::WriteFileAtomically(a.heat_map,
                            reports::ToSvg(HeatMapOf(trained, wild_type, variants, effects)));
  }
  out.Finish();
}

void CheckOptions(const Arguments& a) {
  const auto refuse = [](bool bad, std::string_view option, std::string_view expected) {
    if (bad) Throw(ErrorCode::kInvalidOption, "score", "given {}, expected {}", option, expected);
  };
  const bool mutations = a.mutations.has_value(), compare = !a.compare.empty();
  refuse(mutations && compare, "--mutations and --compare", "one of them");
  refuse(mutations && a.likelihood.tokens, "--mutations and --positions", "one of them");
  refuse(compare && a.likelihood.tokens, "--compare and --positions", "one of them");
  refuse(!a.heat_map.empty() && a.mutations != kAll, "--heat-map", "it with --mutations all");
  refuse(a.record.has_value() && !mutations && !compare, "--record",
         "it with --mutations or --compare");
  refuse(mutations && a.likelihood.every != 0, "--mutations and --every", "one of them");
  CheckFiles("score", {a.out, a.heat_map}, {a.data, a.compare});
}

void Run(const Arguments& a) {
  CheckOptions(a);
  const TrainedModel trained = LoadTrained(a.model);
  const int64_t length =
      a.likelihood.length == 0 ? trained.config.training.length : a.likelihood.length;
  const int64_t window = a.windows ? length : 0;
  const auto reader = OpenRecordsFor(trained, a.data, window);
  const Context context = a.run.Make();
  if (a.mutations) return ScoreMutations(a, trained, *reader, context);
  if (a.compare.empty()) return ScoreAll(a, trained, *reader, std::nullopt, context);
  const auto others = OpenRecordsFor(trained, a.compare, window);
  ScoreAll(a, trained, *others, BaseOf(a, trained, *reader, context), context);
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
  options.Path("--compare", "FILE", a.compare,
               "Score the sequences of this file, less the one of --data");
  options
      .Text("--mutations", a.mutations,
            "Effects of substitutions in the one record of --data: A23G, several at once as "
            "A23G:K5R, or all single ones")
      .Default("none");
  options.Text("--record", a.record, "The record that is mutated or compared with")
      .Default("the only one of --data");
  options.Path("--heat-map", "FILE.svg", a.heat_map, "Draw the effects of all substitutions");
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
