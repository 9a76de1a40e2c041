// favor embed: sequences as vectors.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "cli/command.h"
#include "cli/context_options.h"
#include "cli/files.h"
#include "cli/sequence_options.h"
#include "cli/text_output.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/progress.h"
#include "core/utf8.h"
#include "favor/embedding.h"
#include "favor/likelihood.h"
#include "io/npy_writer.h"
#include "io/safetensors.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string model, data, out;
  EmbedOptions embed;
  int64_t layer = -1;  // −1: the last
  ContextArguments run;
  bool windows = false, quiet = false;
};

constexpr std::string_view kSafetensors = ".safetensors";

// The table next to an array: which rows belong to which record.
std::string TablePath(const std::string& out) {
  return std::filesystem::path(out).replace_extension(".tsv").string();
}

// An array of all rows as they come, and a table of their records.
class NpyOutput {
 public:
  NpyOutput(const std::string& path, int64_t rows, int64_t width)
      : array_(path, {rows, width}, DataType::kF32), table_(TablePath(path)) {
    table_.Write("id\tfirst_row\trows\n");
  }
  void Add(const Embedding& embedding) {
    const Tensor& rows = embedding.rows;
    array_.Write(
        std::as_bytes(std::span(rows.Data<float>(), static_cast<size_t>(rows.shape().Elements()))));
    table_.Write(fmt::format("{}\t{}\t{}\n", Cell(embedding.record.name), rows_, rows.shape()[0]));
    rows_ += rows.shape()[0];
  }
  void Finish() {
    table_.Finish();
    array_.Commit();
  }

 private:
  io::NpyWriter array_;
  TextOutput table_;
  int64_t rows_ = 0;
};

// A tensor for each record, named like it, or one for all of them with their names as metadata.
class SafetensorsOutput {
 public:
  SafetensorsOutput(const std::string& path, Pooling pooling, int64_t width)
      : path_(path), pooling_(pooling), width_(width) {}
  void Add(const Embedding& embedding) {
    const Tensor& rows = embedding.rows;
    std::vector<float> values(rows.Data<float>(), rows.Data<float>() + rows.shape().Elements());
    const std::string& name = embedding.record.name;
    if (pooling_ != Pooling::kNone) {
      all_.insert(all_.end(), values.begin(), values.end());
      names_.push_back(name);
      return;
    }
    contents_.Add(name, {rows.shape()[0], width_}, std::move(values));
  }
  void Finish() {
    if (pooling_ != Pooling::kNone) {
      contents_.Add("embeddings", {static_cast<int64_t>(names_.size()), width_}, std::move(all_));
      contents_.metadata["ids"] = Json(names_).dump();
    }
    io::WriteSafetensors(path_, contents_);
  }

 private:
  std::string path_;
  Pooling pooling_;
  int64_t width_;
  std::vector<float> all_;
  std::vector<std::string> names_;
  io::Safetensors contents_;
};

// safetensors has names in JSON: throws if a record's cannot be one of them.
void CheckNames(RecordReader& reader, Pooling pooling) {
  std::set<std::string> names;
  reader.Rewind();
  for (Record record; reader.Next(record);) {
    const std::string& name = record.name;
    const auto refuse = [&](std::string_view why) {
      Throw(ErrorCode::kInvalidData, "embed", "a record has the name '{}', {} (.npy takes it)",
            Printable(name), why);
    };
    if (Utf8Prefix(name) != name.size()) refuse("which is not UTF-8, as safetensors needs it");
    if (pooling != Pooling::kNone) continue;
    if (name == "__metadata__") refuse("which safetensors has for itself");
    if (!names.insert(name).second)
      refuse("like another one, and safetensors needs different ones");
  }
  reader.Rewind();
}

template <class Output>
void Write(Output output, const Arguments& a, const TrainedModel& trained, RecordReader& reader,
           const EmbedWork& work, const Context& context) {
  Progress progress("embed", work.records, a.quiet);
  int64_t done = 0;
  Embed(trained, reader, a.embed, context, [&](const Embedding& embedding) {
    output.Add(embedding);
    progress.Update(++done);
  });
  output.Finish();
}

void Run(Arguments& a) {
  const bool safetensors = a.out.ends_with(kSafetensors);
  if (!safetensors && !a.out.ends_with(".npy")) {
    Throw(ErrorCode::kInvalidOption, "embed", "--out: given '{}', expected a name that ends in {}",
          Printable(a.out), ".npy or .safetensors");
  }
  CheckFiles("embed", {a.out, safetensors ? "" : TablePath(a.out)}, {a.data});
  if (a.layer >= 0) a.embed.layer = a.layer;
  const Context context = a.run.Make();
  const TrainedModel trained = LoadTrained(a.model, a.run.ModelPlacement());
  const auto reader =
      OpenRecordsFor(trained, a.data, WindowOf("embed", a.windows, a.embed.length, trained));
  const EmbedWork work = CountWork(trained, *reader, a.embed);
  if (work.rows == 0) Throw(ErrorCode::kInvalidData, Printable(a.data), "holds nothing to embed");
  if (safetensors) CheckNames(*reader, a.embed.pooling);
  if (work.clipped > 0) {
    Warn(Printable(a.data),
         "{} of {} records are longer than the length of {}: {} of their tokens are not read "
         "(--layout crop reads all, in pieces; --length N reads longer sequences)",
         work.clipped, work.records,
         a.embed.length == 0 ? trained.config.training.length : a.embed.length, work.left_out);
  }
  const int64_t width = trained.model.config().width;
  if (safetensors) {
    Write(SafetensorsOutput(a.out, a.embed.pooling, width), a, trained, *reader, work, context);
  } else {
    Write(NpyOutput(a.out, work.rows, width), a, trained, *reader, work, context);
  }
  if (a.quiet) return;
  Notice(fmt::format("embed: {} records, {} rows of {} numbers: {}\n", work.records, work.rows,
                     width, Printable(a.out)));
}

void Declare(Options& options, Arguments& a) {
  AddSourceOptions(options, a.model, a.data);
  options
      .Path("--out", "FILE", a.out,
            "An .npy, with a .tsv of ids and rows next to it, or a .safetensors")
      .Required();
  options.Choice("--pool", a.embed.pooling,
                 "How vectors of tokens become one of the sequence; none: a row for each token");
  options
      .Integer("--layer", {0, 1 << 20}, a.layer, "Rows after this layer; 0: embeddings of tokens")
      .Default("the last");
  AddSequenceOptions(options, a.windows, a.embed);
  a.run.AddThreads(options);
  a.run.AddPlacement(options);
  options.Flag("--quiet", a.quiet, "No progress on stderr");
}

}  // namespace

Command EmbedCommand() {
  return {.name = "embed",
          .summary = "Sequences as vectors: hidden states of any layer, pooled or per token",
          .example = "favor embed --model run --data mine.fasta --out mine.npy",
          .setup = Setup(Declare, Run)};
}

}  // namespace favor::cli
