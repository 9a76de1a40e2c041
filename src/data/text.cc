// Text, as bytes or through a SentencePiece model, divided by place or by blocks.
#include <algorithm>
#include <array>

#include "core/error_text.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "data/input_files.h"
#include "data/sentencepiece.h"
#include "data/sources.h"
#include "data/text_file.h"

namespace favor::data {
namespace {

constexpr size_t kParts = 3;  // train, valid and test: text has no list of names to hold out

struct Text {
  std::shared_ptr<const io::InputFile> file;
  int64_t bytes = 0;
};

// A fingerprint of the text, the same for all vocabularies.
std::string ContentOf(const Text& text) {
  Hasher hasher;
  ForEachPiece(*text.file, 0, text.bytes,
               [&](std::string_view piece) { hasher.Add(std::as_bytes(std::span(piece))); });
  return fmt::format("{} bytes, {:016x}", text.bytes, hasher.Value());
}

// Where text is divided by place: at the beginning of a line or of a code point, the same for all
// vocabularies.
std::array<int64_t, kParts + 1> Cuts(const Text& text, const Stored& stored) {
  const auto ends = Division::Place(stored.source, text.bytes, stored.options.format).ends();
  std::array<int64_t, kParts + 1> cuts{};
  for (size_t i = 0; i < kParts; ++i) cuts[i + 1] = NextBoundary(*text.file, ends[i], text.bytes);
  return cuts;
}

// If each split is one run of the file, its bytes are read there and not copied.
void BytesByPlace(const Text& text, Stored& stored) {
  const auto cuts = Cuts(text, stored);
  for (size_t i = 0; i < kParts; ++i) {
    StoredSplit& split = stored.splits[i];
    const int64_t size = cuts[i + 1] - cuts[i];
    TextCounter counter;
    ForEachPiece(*text.file, cuts[i], cuts[i + 1], [&](std::string_view piece) {
      counter.Add(piece);
      if (i > 0) return;
      for (const char c : piece) ++stored.train_counts[static_cast<unsigned char>(c)];
    });
    split.tokens = NumberFile(text.file, 1, cuts[i], size);
    split.summary = {.records = size > 0 ? 1 : 0, .tokens = size};
    if (size > 0) split.summary.lengths[size] = 1;
    counter.Store(split.summary);
  }
}

// Writes pieces of text as tokens, each to the split that it belongs to.
class TextWriter {
 public:
  explicit TextWriter(const Stored& stored) : stored_(stored) {
    for (auto& writer : writers_)
      writer = std::make_unique<StreamWriter>(stored.vocabulary->size());
  }

  void Add(Split split, std::string_view text) {
    const auto part = static_cast<size_t>(split);
    const bool follows = last_ == split;
    const std::vector<int32_t> tokens = stored_.vocabulary->Encode(text, stored_.source);
    counters_[part].Add(text, follows);
    writers_[part]->Append(tokens, follows);
    tokens_ += std::ssize(tokens);
    last_ = split;
  }
  int64_t tokens() const { return tokens_; }  // written so far, to all splits

  void Finish(Stored& stored) {
    stored.train_counts = writers_[0]->counts();
    for (size_t i = 0; i < kParts; ++i) {
      stored.splits[i] = writers_[i]->Finish();
      counters_[i].Store(stored.splits[i].summary);
    }
  }

 private:
  const Stored& stored_;
  std::array<std::unique_ptr<StreamWriter>, kParts> writers_;
  std::array<TextCounter, kParts> counters_;
  std::optional<Split> last_;
  int64_t tokens_ = 0;
};

void BytesByBlocks(const Text& text, Stored& stored) {
  const Division division = Division::Blocks(stored.source, text.bytes, stored.options.format);
  TextWriter writer(stored);
  for (int64_t begin = 0; begin < text.bytes;) {
    const Division::Run run = division.At(begin);
    const int64_t end = std::min(run.end, text.bytes);
    ForEachPiece(*text.file, begin, end,
                 [&](std::string_view piece) { writer.Add(run.split, piece); });
    begin = end;
  }
  writer.Finish(stored);
}

// Writes pieces to scratch files, divided at the places that Cuts gives.
void PiecesByPlace(const Text& text, Stored& stored) {
  const auto cuts = Cuts(text, stored);
  TextWriter writer(stored);
  for (size_t i = 0; i < kParts; ++i) {
    ForEachRun(*text.file, cuts[i], cuts[i + 1], [&](std::string_view run, int64_t place) {
      CheckUtf8(run, stored.source, place);
      writer.Add(static_cast<Split>(i), run);
    });
  }
  writer.Finish(stored);
}

// A block ends with the first line end after its 8,192nd token.
void PiecesByBlocks(const Text& text, Stored& stored) {
  TextWriter writer(stored);
  int64_t block = 0, tokens_before = 0;
  ForEachRun(*text.file, 0, text.bytes, [&](std::string_view run, int64_t place) {
    CheckUtf8(run, stored.source, place);
    while (!run.empty()) {
      const Split split = Division::SplitOfBlock(block);
      const size_t cut = NextCut(run, /*last=*/true);
      writer.Add(split, run.substr(0, cut));
      run.remove_prefix(cut);
      if (writer.tokens() - tokens_before < kBlockTokens) continue;
      tokens_before = writer.tokens();
      ++block;
    }
  });
  Division::Blocks(stored.source, writer.tokens(),
                   stored.options.format);  // throws if there are too few
  writer.Finish(stored);
}

}  // namespace

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options) {
  const InputFiles files(path);
  if (options.format.kind == DataKind::kAuto) RefuseBinary(files);
  Text text{.file = files.Plain()};
  text.bytes = static_cast<int64_t>(text.file->Size().value_or(0));
  if (text.bytes == 0) Throw(ErrorCode::kInvalidData, Printable(path), "holds no text");
  const bool bytes = options.format.tokenizer.empty();
  const bool blocks = options.format.split_by == SplitRule::kBlocks;
  Stored stored{.source = path, .options = options};
  stored.vocabulary = bytes ? OpenVocabulary("bytes") : OpenSentencePiece(options.format.tokenizer);
  stored.unit = bytes ? "byte" : "piece";
  stored.split_by = blocks ? SplitRule::kBlocks : SplitRule::kPlace;
  stored.content = ContentOf(text);
  stored.fingerprint = fmt::format(
      "{}, {}{}", stored.content,
      blocks ? "blocks" : fmt::format("place {} {}", options.format.valid, options.format.test),
      bytes ? "" : ", " + stored.vocabulary->Fingerprint());
  stored.train_counts.resize(static_cast<size_t>(stored.vocabulary->size()));
  if (bytes) {
    (blocks ? BytesByBlocks : BytesByPlace)(text, stored);
  } else {
    (blocks ? PiecesByBlocks : PiecesByPlace)(text, stored);
  }
  return MakeStreamData(std::move(stored));
}

}  // namespace favor::data
