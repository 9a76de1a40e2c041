#include "cli/sequence_options.h"

#include "core/error_text.h"

namespace favor::cli {

void AddSourceOptions(Options& options, std::string& model, std::string& data) {
  options
      .Path("--model", "PATH", model, "A checkpoint, or the folder of a run (its best checkpoint)")
      .Required();
  options
      .Path("--data", "FILE", data,
            "Sequences: FASTA, text or pictures, as the model was trained on; -: standard input "
            "(not for pictures)")
      .Required();
}

void AddSequenceOptions(Options& options, bool& windows, std::optional<Layout>& layout,
                        int64_t& length, int64_t& batch) {
  options.Flag("--windows", windows,
               "Text: sequences are windows of the length, as favor eval reads them, not lines");
  options
      .Choice(
          "--layout", Names<Layout>().first(2),
          [&layout](size_t place) { layout = static_cast<Layout>(place); },
          "Records beyond the length: clip leaves the rest out, crop reads it in pieces")
      .Default("the run's; crop for text and joined records");
  options.Integer("--length", {1, int64_t{1} << 24}, length, "Tokens of a sequence")
      .Default("the run's");
  options.Integer("--batch", {1, 1 << 20}, batch, "Sequences at a time").Default("the run's");
}

int64_t WindowOf(std::string_view who, bool windows, int64_t length, const TrainedModel& trained) {
  if (!windows) return 0;
  if (trained.vocabulary->special().begin) {
    Throw(ErrorCode::kInvalidOption, who, "given --windows for a model of {}, expected text",
          trained.vocabulary->name());
  }
  return length == 0 ? trained.config.training.length : length;
}

}  // namespace favor::cli
