#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "core/error_text.h"
#include "data/alphabet.h"
#include "data/input_files.h"
#include "data/sentencepiece.h"
#include "data/sources.h"
#include "favor/data.h"

namespace favor {
namespace {

constexpr std::string_view kGenerated = "task:";

void CheckFormat(const DataFormat& format) {
  if (!(format.valid >= 0) || !(format.test >= 0) || !(format.valid + format.test < 1)) {
    Throw(ErrorCode::kInvalidOption, "shares",
          "given {} to validate and {} to test, expected less than 1 together", format.valid,
          format.test);
  }
}

// Refuses options that this kind of data does not have. No kind: a generated task.
void CheckKind(std::optional<DataKind> kind, const std::string& source, const DataFormat& format) {
  const DataFormat standard;
  const auto only = [&](DataKind of, std::string_view option, bool given) {
    if (given && kind != of) {
      Throw(ErrorCode::kInvalidOption, option, "given for '{}', which is read as {}, expected {}",
            Printable(source), kind ? Name(*kind) : "a task", Name(of));
    }
  };
  only(DataKind::kFasta, "alphabet", format.alphabet != standard.alphabet);
  only(DataKind::kFasta, "layout", format.layout != standard.layout);
  only(DataKind::kFasta, "held_out", !format.held_out.empty());
  only(DataKind::kFasta, "clusters", !format.clusters.empty());
  only(DataKind::kFasta, "valid_data", !format.valid_data.empty());
  only(DataKind::kFasta, "test_data", !format.test_data.empty());
  only(DataKind::kFasta, "labels", !format.labels.empty());
  if (format.labels.empty() && format.label_of != standard.label_of)
    Throw(ErrorCode::kInvalidOption, "label_of", "given without labels, expected a table of them");
  if (kind != DataKind::kFasta)
    only(DataKind::kFasta, "split_by", format.split_by > SplitRule::kBlocks);
  only(DataKind::kText, "tokenizer", !format.tokenizer.empty());
  if (kind == DataKind::kText && format.split_by == SplitRule::kRecords) {
    Throw(ErrorCode::kInvalidOption, "split_by",
          "given records for '{}', which is read as text, expected place or blocks",
          Printable(source));
  }
}

std::string LowerName(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

bool EndsWith(const std::string& name, std::initializer_list<std::string_view> suffixes) {
  return std::ranges::any_of(suffixes,
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

// Refuses formats that favor does not read but that look like ones it does.
void RefuseForeign(const std::string& source) {
  if (EndsWith(LowerName(source), {".fastq", ".fq"})) {
    Throw(ErrorCode::kInvalidData, Printable(source),
          "is FASTQ by its name, expected FASTA: 'seqtk seq -A' converts it");
  }
}

}  // namespace

DataFormat DataFormat::Undivided() const {
  DataFormat whole = *this;
  whole.valid = whole.test = 0;
  whole.split_by = SplitRule::kAuto;
  whole.held_out = whole.clusters = whole.valid_data = whole.test_data = "";
  return whole;
}

const BatchRequest& data::CheckedRequest(const BatchRequest& request) {
  if (request.index < 0 || request.batch < 1 || request.length < 1) {
    Throw(ErrorCode::kInvalidOption, "batch",
          "given number {} of {} × {} tokens, expected 0 or more of at least 1 × 1", request.index,
          request.batch, request.length);
  }
  return request;
}

// By the name of the file, or of the first of several; unknown names are text.
DataKind KindOf(const std::string& source, const DataFormat& format) {
  if (format.kind != DataKind::kAuto) return format.kind;
  std::error_code ignored;
  const bool several =
      std::filesystem::is_directory(source, ignored) || source.find(',') != std::string::npos;
  const std::string name = LowerName(several ? data::FileNames(source).front() : source);
  if (EndsWith(name, {".fasta", ".fa", ".faa", ".fna", ".fas", ".fsa", ".ffn", ".mpfa"}))
    return DataKind::kFasta;
  return EndsWith(name, {".png", ".npy"}) ? DataKind::kPictures : DataKind::kText;
}

std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& source,
                                               const DataFormat& format) {
  if (source.starts_with(kGenerated))
    return data::GeneratedVocabulary(source.substr(kGenerated.size()));
  const DataKind kind = KindOf(source, format);
  if (kind == DataKind::kFasta) return data::LettersOf(format.alphabet);
  if (kind == DataKind::kPictures) return OpenVocabulary("pixels");
  return format.tokenizer.empty() ? OpenVocabulary("bytes")
                                  : data::OpenSentencePiece(format.tokenizer);
}

int64_t CountTargets(const Batch& batch) {
  return std::ranges::count_if(batch.targets, [](int32_t target) { return target != kNoTarget; }) +
         std::ranges::count_if(batch.values, [](float value) { return !std::isnan(value); });
}

std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options) {
  CheckFormat(options.format);
  if (source.starts_with(kGenerated)) {
    CheckKind(std::nullopt, source, options.format);
    return data::OpenGenerated(source.substr(kGenerated.size()), options);
  }
  const bool labels = HasLabels(options.task);
  if (labels != !options.format.labels.empty()) {
    Throw(ErrorCode::kInvalidOption, "task", "given {} for '{}' {} labels, expected {}",
          Name(options.task), Printable(source), labels ? "without" : "with",
          labels ? "a table of them (or causal or masked)" : "classify or regress");
  }
  RefuseForeign(source);
  const DataKind kind = KindOf(source, options.format);
  CheckKind(kind, source, options.format);
  if (kind == DataKind::kFasta) return data::OpenFasta(source, options);
  if (kind == DataKind::kPictures) return data::OpenPictures(source, options);
  return data::OpenText(source, options);
}

std::unique_ptr<RecordReader> OpenRecords(const std::string& source, const RecordOptions& options) {
  if (source.starts_with(kGenerated)) {
    Throw(ErrorCode::kInvalidOption, "data", "given the generated task '{}', expected a file",
          Printable(source));
  }
  RefuseForeign(source);
  return data::OpenRecordsOf(KindOf(source, options.format), source, options);
}

}  // namespace favor
