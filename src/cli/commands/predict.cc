// favor predict: what a model that has learned labels says of sequences.
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/sequence_options.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/progress.h"
#include "favor/likelihood.h"
#include "favor/prediction.h"
#include "inference/label_outputs.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data, out;
  PredictOptions predict;
  ContextArguments run;
  bool quiet = false;
};

class Table {
 public:
  Table(const Arguments& a, const TrainedModel& trained)
      : out_(a.out), trained_(trained), config_(trained.model.config()) {
    out_.Write(config_.per_token ? "id\tposition\ttoken\t" : "id\t");
    if (config_.numbers) {
      out_.Write("value\n");
      return;
    }
    out_.Write("class\tprobability");
    for (size_t i = 0; i < static_cast<size_t>(config_.classes); ++i)
      out_.Write(fmt::format("\t{}", Cell(inference::ClassName(i, trained_.classes))));
    out_.Write("\n");
  }

  void Add(const Prediction& prediction) {
    const Record& record = prediction.record;
    const std::string name = Cell(record.name);
    for (int64_t row = 0; row < prediction.outputs.shape()[0]; ++row) {
      out_.Write(name);
      if (config_.per_token) {
        const int32_t token = record.tokens[static_cast<size_t>(row)];
        out_.Write(fmt::format("\t{}\t{}", row + 1, trained_.vocabulary->Show(token)));
      }
      AddOutputs({prediction.outputs.Data<float>() + row * config_.classes,
                  static_cast<size_t>(config_.classes)});
    }
  }
  void Finish() { out_.Finish(); }

 private:
  void AddOutputs(std::span<const float> outputs) {
    if (config_.numbers) return out_.Write(fmt::format("\t{:.6g}\n", outputs[0]));
    const auto best = static_cast<size_t>(std::ranges::max_element(outputs) - outputs.begin());
    out_.Write(fmt::format("\t{}\t{:.4f}", Cell(inference::ClassName(best, trained_.classes)),
                           outputs[best]));
    for (const float probability : outputs) out_.Write(fmt::format("\t{:.4f}", probability));
    out_.Write("\n");
  }

  TextOutput out_;
  const TrainedModel& trained_;
  const ModelConfig& config_;
};

void Run(const Arguments& a) {
  CheckFiles("predict", {a.out}, {a.data});
  const Context context = a.run.Make();
  const TrainedModel trained = LoadTrained(a.model, a.run.ModelPlacement());
  const auto reader = OpenRecordsFor(trained, a.data);
  int64_t records = 0, done = 0;
  for (Record record; reader->Next(record);) ++records;  // what is wrong with the file is said now
  reader->Rewind();
  Table table(a, trained);
  Progress progress("predict", records, a.quiet || a.out.empty());
  Predict(trained, *reader, a.predict, context, [&](const Prediction& prediction) {
    table.Add(prediction);
    progress.Update(++done);
  });
  table.Finish();
}

void Declare(Options& options, Arguments& a) {
  AddSourceOptions(options, a.model, a.data);
  options.Path("--out", "FILE.tsv", a.out, "Where the table goes").Default("standard output");
  options
      .Integer("--length", {1, int64_t{1} << 24}, a.predict.length,
               "Tokens that are read of a sequence")
      .Default("the run's");
  options.Integer("--batch", {1, 1 << 20}, a.predict.batch, "Sequences at a time")
      .Default("the run's");
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
  options.Flag("--quiet", a.quiet, "No progress on stderr");
}

}  // namespace

Command PredictCommand() {
  return {.name = "predict",
          .summary = "Classes or numbers of sequences, by a model that has learned labels",
          .example = "favor predict --model run --data new.fasta --out predicted.tsv",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
