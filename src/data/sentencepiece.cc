#include "data/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>

#include "core/error_text.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "data/sentencepiece_log.h"
#include "data/sentencepiece_model.h"
#include "data/text_file.h"
#include "io/input_file.h"

namespace favor::data {
namespace {

constexpr size_t kMostModelBytes = 64 << 20;
constexpr std::string_view kSpace = "\u2581";      // stands for a space in pieces
constexpr std::string_view kUnknown = " \u2047 ";  // as SentencePiece writes it

class SentencePieceVocabulary : public Vocabulary {
 public:
  SentencePieceVocabulary(std::string_view bytes, const std::string& name) {
    const PieceModel model = ParsePieceModel(bytes, name);
    QuietSentencePiece();
    try {
      const auto status = processor_.LoadFromSerializedProto(SerializePieceModel(model));
      if (!status.ok()) {
        Throw(ErrorCode::kInvalidData, Printable(name), "not a SentencePiece model: {}",
              Printable(status.message()));
      }
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      Throw(ErrorCode::kInvalidData, Printable(name), "not a SentencePiece model: {}",
            Printable(error.what()));
    }
    fingerprint_ = fmt::format("sentencepiece {:016x}", HashOf(std::as_bytes(std::span(bytes))));
    exact_ = model.Exact();
    dummy_prefix_ = model.dummy_prefix && !model.space_behind;
    for (const Piece& piece : model.pieces) {
      shown_.push_back(Printable(piece.text));
      texts_.push_back(TextOf(piece));
      if (piece.type == PieceType::kUnknown) bytes_.fill(static_cast<int32_t>(texts_.size() - 1));
    }
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      if (model.pieces[i].type == PieceType::kByte)
        bytes_[static_cast<unsigned char>(texts_[i][0])] = static_cast<int32_t>(i);
    }
  }

  std::string_view name() const override { return "sentencepiece"; }
  int64_t size() const override { return ordinary() + 2; }
  int64_t ordinary() const override { return static_cast<int64_t>(texts_.size()); }
  SpecialTokens special() const override {
    const auto first = static_cast<int32_t>(ordinary());
    return {.begin = {}, .end = {}, .hidden = first, .padding = first + 1};
  }
  std::string Fingerprint() const override { return fingerprint_; }

  std::vector<int32_t> Encode(std::string_view text, const std::string& who) const override {
    CheckUtf8(text, who);
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      const size_t cut = NextCut(text, /*last=*/true);
      EncodeCut(text.substr(0, cut), who, tokens);
      text.remove_prefix(cut);
    }
    return tokens;
  }

  std::string Decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < ordinary()) text += texts_[static_cast<size_t>(token)];
    }
    if (dummy_prefix_ && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  std::string Show(int32_t token) const override {
    if (token < ordinary()) return shown_.at(static_cast<size_t>(token));
    return token == special().hidden ? "<hidden>" : "<padding>";
  }

 private:
  static std::string TextOf(const Piece& piece) {
    if (piece.type == PieceType::kControl) return "";
    if (piece.type == PieceType::kUnknown) return std::string(kUnknown);
    if (piece.type == PieceType::kByte) {  // <0x0A>
      int value = 0;
      std::from_chars(piece.text.data() + 3, piece.text.data() + 5, value, 16);
      return std::string(1, static_cast<char>(value));
    }
    std::string text;
    for (std::string_view rest = piece.text; !rest.empty();) {
      const bool space = rest.starts_with(kSpace);
      text +=
          space ? ' ' : rest.front();  // cppcheck-suppress containerOutOfBounds; it is not empty
      rest.remove_prefix(space ? kSpace.size() : 1);
    }
    return text;
  }

  // A literal U+2581 would be decoded as a space: exact models encode it as three bytes. A 0 would
  // end keys in SentencePiece's tries.
  void EncodeCut(std::string_view text, const std::string& who,
                 std::vector<int32_t>& tokens) const {
    while (!text.empty()) {
      const size_t zero = text.find('\0'), literal = exact_ ? text.find(kSpace) : text.npos;
      const size_t plain = std::min({zero, literal, text.size()});
      EncodePlain(text.substr(0, plain), who, tokens);
      text.remove_prefix(plain);
      const size_t special = text.empty() ? 0 : zero < literal ? 1 : kSpace.size();
      for (const char c : text.substr(0, special))
        tokens.push_back(bytes_[static_cast<unsigned char>(c)]);
      text.remove_prefix(special);
    }
  }

  void EncodePlain(std::string_view text, const std::string& who,
                   std::vector<int32_t>& tokens) const {
    if (text.empty()) return;
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok())
      Throw(ErrorCode::kInvalidData, Printable(who), "{}", Printable(status.message()));
    for (const int id : ids) {
      if (id < 0 || id >= ordinary()) {
        Throw(ErrorCode::kInvalidData, Printable(who),
              "the SentencePiece model gave token {}, expected 0 to {}", id, ordinary() - 1);
      }
      tokens.push_back(id);
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::string fingerprint_;
  bool exact_ = false, dummy_prefix_ = false;
  std::vector<std::string> texts_, shown_;  // one per piece
  std::array<int32_t, 256> bytes_{};        // the token of each byte, or the unknown token
};

}  // namespace

std::shared_ptr<const Vocabulary> OpenSentencePiece(const std::string& path) {
  return ParseSentencePiece(io::OpenRegularFile(path).ReadRest(kMostModelBytes), path);
}

std::shared_ptr<const Vocabulary> ParseSentencePiece(std::string_view bytes,
                                                     const std::string& name) {
  return std::make_shared<const SentencePieceVocabulary>(bytes, name);
}

}  // namespace favor::data
