// Text, as bytes or through a SentencePiece model. The end of the file is held out.
#include <algorithm>

#include "core/error_text.h"
#include "data/sources.h"
#include "io/byte_stream.h"

namespace favor::data {
namespace {

// The file itself, or what a compressed one holds.
std::shared_ptr<const io::InputFile> Plain(const std::string& path) {
  io::ByteStream stream(path);
  if (!stream.compressed()) return std::make_shared<const io::InputFile>(path);
  io::ScratchFile scratch;
  for (std::string_view piece = stream.Next(); !piece.empty(); piece = stream.Next())
    scratch.Append(std::as_bytes(std::span(piece)));
  return scratch.Finish();
}

// Bytes [begin, end) of a file, a piece at a time.
template <class Visit>
void ForEachPiece(const io::InputFile& file, int64_t begin, int64_t end, const Visit& visit) {
  constexpr int64_t kPiece = 1 << 20;
  std::string piece;
  for (int64_t at = begin; at < end; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, end - at)));
    file.ReadAt(at, std::as_writable_bytes(std::span(piece)));
    visit(std::string_view(piece));
  }
}

// Counts words, code points and bytes as they pass.
class TextCounter {
 public:
  void Add(std::string_view text) {
    for (const char c : text) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      words_ += !space && between_ ? 1 : 0;
      between_ = space;
      characters_ += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    }
  }
  void Store(SplitSummary& summary) const {
    summary.words = words_;
    summary.characters = characters_;
  }

 private:
  int64_t words_ = 0, characters_ = 0;
  bool between_ = true;
};

}  // namespace

std::unique_ptr<Dataset> OpenText(const std::string& path, const DataOptions& options) {
  const auto file = Plain(path);
  const auto bytes = static_cast<int64_t>(file->Size().value_or(0));
  const auto share = [&](double part) {
    return static_cast<int64_t>(part * static_cast<double>(bytes));
  };
  const int64_t test = share(options.format.test), valid = share(options.format.valid);
  const std::array<int64_t, 4> cuts = {0, bytes - valid - test, bytes - test, bytes};
  if (valid < 2) {
    Throw(ErrorCode::kInvalidData, Printable(path),
          "given {} bytes of text, of which {} are to validate, expected at least 2 of these",
          bytes, valid);
  }
  Stored stored{
      .source = path, .options = options, .vocabulary = OpenVocabulary("bytes"), .unit = "byte"};
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
  stored.fingerprint = fmt::format("{} bytes, {:016x}", bytes, hasher.Value());
  return MakeStreamData(std::move(stored));
}

}  // namespace favor::data
