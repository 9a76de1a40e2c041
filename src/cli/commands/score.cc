// favor score: how likely sequences are to a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/sequence_options.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/notice.h"
#include "core/progress.h"
#include "favor/likelihood.h"
#include "favor/mutations.h"
#include "io/atomic_file.h"
#include "io/input_file.h"
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
    const std::string name = Cell(record.name);
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

void WarnClipped(const Arguments& a, const TrainedModel& trained, const std::string& source,
                 const LikelihoodWork& work) {
  if (work.clipped == 0) return;
  Warn(Printable(source),
       "{} of {} records are longer than the length of {}: {} of their tokens are not scored "
       "(--layout crop scores all, in pieces; --length N reads longer sequences)",
       work.clipped, work.records,
       a.likelihood.length == 0 ? trained.config.training.length : a.likelihood.length,
       work.left_out);
}

// Encoders: says what it will cost.
void SayPasses(const Arguments& a, const TrainedModel& trained, const LikelihoodWork& work) {
  if (trained.model.config().causal || a.quiet) return;
  Notice(fmt::format("score: {} passes over {} sequences{}\n", work.passes, work.sequences,
                     a.likelihood.every == 0 ? ", one for each token (--every 16 hides every 16th "
                                               "at once: 16 passes per sequence)"
                                             : ""));
}

// One record as if it were a file.
class OneRecord : public RecordReader {
 public:
  explicit OneRecord(const Record& record) : record_(record) {}
  bool Next(Record& record) override {
    if (std::exchange(read_, true)) return false;
    record = record_;
    return true;
  }
  void Rewind() override { read_ = false; }

 private:
  const Record& record_;
  bool read_ = false;
};

void WarnClipped(const Arguments& a, const TrainedModel& trained, const Record& record) {
  OneRecord one(record);
  WarnClipped(a, trained, record.name, CountWork(trained, one, a.likelihood));
}

// Scores all records of a source, less the score of `base` if there is one.
void ScoreAll(const Arguments& a, const TrainedModel& trained, const std::string& source,
              RecordReader& reader, const Record* base, const Context& context) {
  const LikelihoodWork work = CountWork(trained, reader, a.likelihood);
  if (work.targets == 0)
    Throw(ErrorCode::kInvalidData, Printable(source), "holds nothing to predict");
  WarnClipped(a, trained, source, work);
  SayPasses(a, trained, work);
  std::optional<double> base_sum;
  if (base != nullptr) base_sum = LikelihoodOf(trained, *base, a.likelihood, context).sum;
  Table table(a, trained, base_sum);
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
  WarnClipped(a, trained, wild_type);
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
  refuse(mutations && a.windows, "--mutations and --windows", "one of them");
  refuse(a.data == io::kStandardInput && a.compare == io::kStandardInput,
         "standard input for --data and --compare", "it for one of them");
  CheckFiles("score", {a.out, a.heat_map}, {a.data, a.compare});
}

void Run(const Arguments& a) {
  CheckOptions(a);
  const Context context = a.run.Make();
  const TrainedModel trained = LoadTrained(a.model, a.run.ModelPlacement());
  if (a.likelihood.every > 0 && trained.model.config().causal)
    Throw(ErrorCode::kInvalidOption, "score", "given --every for a decoder, expected an encoder");
  const int64_t window = WindowOf("score", a.windows, a.likelihood.length, trained);
  const auto reader = OpenRecordsFor(trained, a.data, window);
  if (a.mutations) return ScoreMutations(a, trained, *reader, context);
  if (a.compare.empty()) return ScoreAll(a, trained, a.data, *reader, nullptr, context);
  const Record base = ReadOneRecord(*reader, a.record.value_or(""));
  WarnClipped(a, trained, base);
  ScoreAll(a, trained, a.compare, *OpenRecordsFor(trained, a.compare, window), &base, context);
}

void Declare(Options& options, Arguments& a) {
  AddSourceOptions(options, a.model, a.data);
  options.Path("--out", "FILE.tsv", a.out, "Where the table goes").Default("standard output");
  options.Flag("--positions", a.likelihood.tokens, "A row for each token instead of each sequence");
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
  AddSequenceOptions(options, a.windows, a.likelihood);
  options
      .Integer("--every", {1, int64_t{1} << 24}, a.likelihood.every,
               "Encoders: hide every Nth token at once, in N passes per sequence")
      .Default("one pass per token");
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
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
