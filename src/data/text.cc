// Text, as bytes or through a SentencePiece model. The end of the file is held out.
#include <algorithm>
#include <array>

#include "core/error_text.h"
#include "core/utf8.h"
#include "data/sentencepiece.h"
#include "data/sources.h"
#include "data/text_file.h"

namespace favor::data {
namespace {

using Cuts = std::array<int64_t, 4>;  // between train, valid and test

// Bytes stay in the file.
void ReadBytes(const std::shared_ptr<const io::InputFile>& file, const Cuts& cuts, Stored& stored) {
  stored.vocabulary = OpenVocabulary("bytes");
  stored.unit = "byte";
  Hasher hasher;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    StoredSplit& split = stored.splits[i];
    const int64_t size = cuts[i + 1] - cuts[i];
    TextCounter counter;
    ForEachPiece(*file, cuts[i], cuts[i + 1], [&](std::string_view piece) {
      counter.Add(piece);
      hasher.Add(std::as_bytes(std::span(piece)));
    });
    split.tokens = NumberFile(file, 1, cuts[i], size);
    split.summary = {.records = 1, .tokens = size, .lengths = {{size, 1}}};
    counter.Store(split.summary);
  }
  stored.fingerprint = fmt::format("{} bytes, {:016x}", cuts.back(), hasher.Value());
}

// Pieces are written to scratch files. Cuts move to where text may be divided.
void ReadPieces(const io::InputFile& file, Cuts cuts, Stored& stored) {
  stored.vocabulary = OpenSentencePiece(stored.options.format.tokenizer);
  stored.unit = "piece";
  for (int64_t& cut : cuts) cut = NextBoundary(file, cut, cuts.back());
  Hasher hasher;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    NumberFileWriter tokens(ItemBytes(stored.vocabulary->size()));
    TextCounter counter;
    ForEachRun(file, cuts[i], cuts[i + 1], [&](std::string_view run, int64_t place) {
      CheckUtf8(run, stored.source, place);
      counter.Add(run);
      hasher.Add(std::as_bytes(std::span(run)));
      tokens.Append(stored.vocabulary->Encode(run, stored.source));
    });
    const int64_t size = tokens.size();
    StoredSplit& split = stored.splits[i];
    split.tokens = tokens.Finish();
    split.summary = {.records = 1, .tokens = size, .lengths = {{size, 1}}};
    counter.Store(split.summary);
  }
  stored.fingerprint = fmt::format("{} bytes, {:016x}, {}", cuts.back(), hasher.Value(),
                                   stored.vocabulary->Fingerprint());
}

}  // namespace

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options) {
  const auto file = OpenPlain(path);
  const auto bytes = static_cast<int64_t>(file->Size().value_or(0));
  const auto share = [&](double part) {
    return static_cast<int64_t>(part * static_cast<double>(bytes));
  };
  const int64_t test = share(options.format.test), valid = share(options.format.valid);
  if (valid < 2) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given {} bytes of text, of which {} are to validate, expected at least 2 of these",
          bytes, valid);
  }
  const Cuts cuts = {0, bytes - valid - test, bytes - test, bytes};
  Stored stored{.source = path, .options = options};
  if (options.format.tokenizer.empty()) {
    ReadBytes(file, cuts, stored);
  } else {
    ReadPieces(*file, cuts, stored);
  }
  return MakeStreamData(std::move(stored));
}

}  // namespace favor::data
