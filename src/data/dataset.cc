#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "core/error_text.h"
#include "data/input_files.h"
#include "data/sentencepiece.h"
#include "data/sources.h"
#include "favor/data.h"

namespace favor {
namespace {

constexpr std::array<std::string_view, kSplits + 1> kSplitNames = {"train", "valid", "test",
                                                                   "held-out", "all"};
constexpr std::array<std::string_view, 3> kTasks = {"causal", "masked", "classify"};
constexpr std::array<std::string_view, 4> kKinds = {"auto", "fasta", "text", "pictures"};
constexpr std::array<std::string_view, 3> kLayouts = {"clip", "crop", "join"};
constexpr std::array<std::string_view, 4> kSplitRules = {"auto", "records", "place", "blocks"};
constexpr std::array<std::string_view, 2> kAlphabets = {"protein", "dna"};
constexpr std::string_view kGenerated = "task:";

void CheckName(std::string_view who, std::string_view name,
               std::span<const std::string_view> names) {
  if (std::ranges::find(names, name) == names.end())
    Throw(ErrorCode::kInvalidOption, who, "unknown name '{}'{}", Printable(name),
          Suggest(name, names));
}

void CheckFormat(const DataFormat& format) {
  CheckName("kind", format.kind, kKinds);
  CheckName("alphabet", format.alphabet, kAlphabets);
  CheckName("layout", format.layout, kLayouts);
  CheckName("split_by", format.split_by, kSplitRules);
  if (!(format.valid >= 0) || !(format.test >= 0) || !(format.valid + format.test < 1)) {
    Throw(ErrorCode::kInvalidOption, "shares",
          "given {} to validate and {} to test, expected less than 1 together", format.valid,
          format.test);
  }
}

// Options that a kind of data does not know are a mistake, not a detail.
void CheckKind(std::string_view kind, const std::string& source, const DataFormat& format) {
  const DataFormat standard;
  const auto only = [&](std::string_view of, std::string_view option, bool given) {
    if (given && kind != of) {
      Throw(ErrorCode::kInvalidOption, option, "given for '{}', which is read as {}, expected {}",
            Printable(source), kind, of);
    }
  };
  only("fasta", "alphabet", format.alphabet != standard.alphabet);
  only("fasta", "layout", format.layout != standard.layout);
  only("fasta", "held_out", !format.held_out.empty());
  only("text", "tokenizer", !format.tokenizer.empty());
  if (kind == "text" && format.split_by == "records") {
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

// Formats that are not read but look as if they were.
void RefuseForeign(const std::string& source) {
  if (EndsWith(LowerName(source), {".fastq", ".fq"})) {
    Throw(ErrorCode::kInvalidData, Printable(source),
          "is FASTQ by its name, expected FASTA: 'seqtk seq -A' makes one of the other");
  }
}

}  // namespace

std::string_view Name(Split split) { return kSplitNames[static_cast<size_t>(split)]; }
std::span<const std::string_view> SplitNames() { return kSplitNames; }
std::span<const std::string_view> TaskNames() { return kTasks; }
std::span<const std::string_view> KindNames() { return kKinds; }
std::span<const std::string_view> LayoutNames() { return kLayouts; }
std::span<const std::string_view> SplitRuleNames() { return kSplitRules; }
std::span<const std::string_view> AlphabetNames() { return kAlphabets; }

Split SplitNamed(std::string_view name) {
  const auto found = std::ranges::find(kSplitNames, name);
  if (found == kSplitNames.end())
    Throw(ErrorCode::kInvalidOption, "split", "unknown name '{}'{}", Printable(name),
          Suggest(name, kSplitNames));
  return static_cast<Split>(found - kSplitNames.begin());
}

const BatchRequest& data::CheckedRequest(const BatchRequest& request) {
  if (request.index < 0 || request.batch < 1 || request.length < 1) {
    Throw(ErrorCode::kInvalidOption, "batch", "asked for number {} of {} × {} tokens",
          request.index, request.batch, request.length);
  }
  return request;
}

// By the name of the file, or of the first of several; what is not known is text.
std::string KindOf(const std::string& source, const DataFormat& format) {
  if (format.kind != "auto") return format.kind;
  std::error_code ignored;
  const bool several =
      std::filesystem::is_directory(source, ignored) || source.find(',') != std::string::npos;
  const std::string name = LowerName(several ? data::FileNames(source).front() : source);
  if (EndsWith(name, {".fasta", ".fa", ".faa", ".fna", ".fas", ".fsa", ".ffn", ".mpfa"}))
    return "fasta";
  return EndsWith(name, {".png", ".npy"}) ? "pictures" : "text";
}

std::shared_ptr<const Vocabulary> VocabularyOf(const std::string& source,
                                               const DataFormat& format) {
  if (source.starts_with(kGenerated))
    return data::GeneratedVocabulary(source.substr(kGenerated.size()));
  const std::string kind = KindOf(source, format);
  if (kind == "fasta") return OpenVocabulary(format.alphabet);
  if (kind == "pictures") return OpenVocabulary("pixels");
  return format.tokenizer.empty() ? OpenVocabulary("bytes")
                                  : data::OpenSentencePiece(format.tokenizer);
}

std::unique_ptr<Dataset> OpenData(const std::string& source, const DataOptions& options) {
  CheckName("task", options.task, kTasks);
  CheckFormat(options.format);
  if (source.starts_with(kGenerated)) {
    CheckKind("a task", source, options.format);
    return data::OpenGenerated(source.substr(kGenerated.size()), options);
  }
  if (options.task == "classify") {
    Throw(ErrorCode::kInvalidOption, "task", "given classify for '{}', expected causal or masked",
          Printable(source));
  }
  RefuseForeign(source);
  const std::string kind = KindOf(source, options.format);
  CheckKind(kind, source, options.format);
  if (kind == "fasta") return data::OpenFasta(source, options);
  if (kind == "pictures") return data::OpenPictures(source, options);
  return data::OpenText(source, options);
}

}  // namespace favor
