#include "data/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include "core/error_text.h"
#include "core/utf8.h"

namespace favor::data {
namespace {

constexpr size_t kMostPieces = 1 << 22;
constexpr size_t kLongestPiece = 4096;
constexpr int kLongestRule = 256;
constexpr size_t kLongestReplacement = 256;
// SentencePiece keeps matches in arrays of fixed size, but reads back as many as it found.
constexpr int kMostRuleMatches = 32;
constexpr size_t kMostSymbolMatches = 64;

// Numbers of fields in sentencepiece_model.proto.
enum ModelField { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
enum PieceField { kText = 1, kScore = 2, kType = 3 };
enum TrainerField { kAlgorithm = 3, kSpaceBehind = 24, kByteFallback = 35 };
enum NormalizerField { kRules = 2, kDummyPrefix = 3, kRemoveExtraSpaces = 4, kEscapeSpaces = 5 };
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class ModelReader {
 public:
  ModelReader(std::string_view bytes, const std::string& name) : name_(name) {
    ForEachField(bytes, [&](const Field& field) {
      if (field.number == kPieces) AddPiece(field.Bytes(*this));
      if (field.number == kTrainer) ReadTrainer(field.Bytes(*this));
      if (field.number == kNormalizer) ReadNormalizer(field.Bytes(*this));
    });
    CheckPieces();
    CheckSymbols();
    if (!model_.rules.empty()) CheckRules();
  }
  PieceModel Take() { return std::move(model_); }

 private:
  struct Field {
    uint64_t number = 0;
    int wire_type = 0;
    uint64_t value = 0;
    std::string_view bytes;

    std::string_view Bytes(const ModelReader& reader) const {
      if (wire_type != kBytes) reader.Fail("a field has the wrong type");
      return bytes;
    }
    uint64_t Value(const ModelReader& reader, WireType wanted) const {
      if (wire_type != wanted) reader.Fail("a field has the wrong type");
      return value;
    }
  };

  [[noreturn]] void Fail(std::string_view what) const {
    Throw(ErrorCode::kInvalidData, Printable(name_), "not a SentencePiece model: {}", what);
  }

  std::string_view TakeBytes(std::string_view& from, uint64_t size) const {
    if (size > from.size()) Fail("cut off");
    const std::string_view taken = from.substr(0, size);
    from.remove_prefix(size);
    return taken;
  }

  uint64_t TakeVarint(std::string_view& from) const {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(TakeBytes(from, 1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail("a number is too long");
  }

  template <class Visit>
  void ForEachField(std::string_view message, const Visit& visit) const {
    while (!message.empty()) {
      const uint64_t tag = TakeVarint(message);
      Field field{.number = tag >> 3, .wire_type = static_cast<int>(tag & 7)};
      if (field.number == 0) Fail("a field has no number");
      switch (field.wire_type) {
        case kVarint:
          field.value = TakeVarint(message);
          break;
        case kFixed64:
          TakeBytes(message, 8);
          break;
        case kBytes:
          field.bytes = TakeBytes(message, TakeVarint(message));
          break;
        case kFixed32: {
          uint32_t value = 0;
          std::memcpy(&value, TakeBytes(message, 4).data(), 4);
          field.value = value;
          break;
        }
        default:
          Fail("a field of unknown type");
      }
      visit(field);
    }
  }

  void AddPiece(std::string_view message) {
    if (model_.pieces.size() == kMostPieces) Fail("too many pieces");
    Piece piece;
    ForEachField(message, [&](const Field& field) {
      if (field.number == kText) piece.text = field.Bytes(*this);
      if (field.number == kScore)
        piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.Value(*this, kFixed32)));
      if (field.number == kType) {
        const uint64_t type = field.Value(*this, kVarint);
        if (type < 1 || type > 6) Fail("a piece of unknown type");
        piece.type = static_cast<PieceType>(type);
      }
    });
    model_.pieces.push_back(piece);
  }

  void ReadTrainer(std::string_view message) {
    ForEachField(message, [&](const Field& field) {
      if (field.number == kAlgorithm) model_.algorithm = field.Value(*this, kVarint);
      if (field.number == kSpaceBehind) model_.space_behind = field.Value(*this, kVarint) != 0;
      if (field.number == kByteFallback) model_.byte_fallback = field.Value(*this, kVarint) != 0;
    });
    if (model_.algorithm < 1 || model_.algorithm > 4) Fail("an unknown kind of model");
  }

  void ReadNormalizer(std::string_view message) {
    ForEachField(message, [&](const Field& field) {
      if (field.number == kRules) model_.rules = field.Bytes(*this);
      if (field.number == kDummyPrefix) model_.dummy_prefix = field.Value(*this, kVarint) != 0;
      if (field.number == kRemoveExtraSpaces)
        model_.remove_extra_spaces = field.Value(*this, kVarint) != 0;
      if (field.number == kEscapeSpaces) model_.escape_spaces = field.Value(*this, kVarint) != 0;
    });
  }

  void CheckPieces() const {
    if (model_.pieces.empty()) Fail("it has no pieces");
    std::set<std::string_view> seen;
    std::set<std::string> bytes;
    for (int i = 0; i < 256; ++i) bytes.insert(fmt::format("<0x{:02X}>", i));
    int unknown = 0, fallback = 0;
    for (const Piece& piece : model_.pieces) {
      if (piece.text.empty() || piece.text.size() > kLongestPiece)
        Fail(fmt::format("a piece of {} bytes", piece.text.size()));
      if (Utf8Prefix(piece.text) < piece.text.size() ||
          piece.text.find('\0') != std::string_view::npos)
        Fail("a piece that is not text");
      if (!std::isfinite(piece.score)) Fail("a score that is not a number");
      if (!seen.insert(piece.text).second)
        Fail(fmt::format("the piece '{}' twice", Printable(piece.text)));
      unknown += piece.type == PieceType::kUnknown ? 1 : 0;
      if (piece.type == PieceType::kByte) {
        ++fallback;
        if (!bytes.contains(std::string(piece.text)))
          Fail(fmt::format("'{}' as a byte", Printable(piece.text)));
      }
    }
    if (unknown != 1) Fail(fmt::format("{} unknown pieces, expected one", unknown));
    if (fallback != (model_.byte_fallback ? 256 : 0)) Fail(fmt::format("{} bytes", fallback));
  }

  // In sorted order, each symbol follows those that it begins with.
  void CheckSymbols() const {
    std::set<std::string_view> symbols;
    for (const Piece& piece : model_.pieces) {
      if (piece.type == PieceType::kUserDefined) symbols.insert(piece.text);
    }
    std::vector<std::string_view> beginnings;
    for (const std::string_view symbol : symbols) {
      while (!beginnings.empty() && !symbol.starts_with(beginnings.back())) beginnings.pop_back();
      beginnings.push_back(symbol);
      if (beginnings.size() > kMostSymbolMatches) Fail("too many symbols that begin alike");
    }
  }

  // The rules are 4 bytes with the size of a trie; the trie, a double array of 4-byte units; and
  // the replacements, texts that each end with a 0. A unit of the trie holds, from the lowest bit,
  // a label (8 bits), whether a value follows, how its offset is scaled, and the offset; values
  // have the highest bit. No text that is encoded has a 0, so that label is not followed.
  void CheckRules() const {
    uint32_t trie_bytes = 0;
    std::string_view rest = model_.rules;
    std::memcpy(&trie_bytes, TakeBytes(rest, 4).data(), 4);
    const std::string_view trie = TakeBytes(rest, trie_bytes), replacements = rest;
    if (trie.empty() || trie.size() % 4 != 0 || replacements.empty() ||
        replacements.back() != '\0' || Utf8Prefix(replacements) < replacements.size())
      Fail("damaged rules of normalisation");
    std::vector<uint32_t> units(trie.size() / 4);
    std::memcpy(units.data(), trie.data(), trie.size());
    std::vector<int> matches(units.size(), -1);
    FollowRules({.units = units, .replacements = replacements, .matches = matches}, 0, 0);
  }

  struct Rules {
    std::span<const uint32_t> units;
    std::string_view replacements;
    std::span<int> matches;  // most matches on any path from a unit on; -1: not known yet
  };

  int FollowRules(const Rules& rules, size_t at, int depth) const {
    if (rules.matches[at] >= 0) return rules.matches[at];  // paths may join again
    if (depth > kLongestRule) Fail("an endless rule of normalisation");
    const uint32_t unit = rules.units[at];
    const size_t children = at ^ ((unit >> 10) << ((unit & (1u << 9)) >> 6));
    // The place of a child is `children` xor its label; that of the value is `children` itself.
    if ((children | 0xff) >= rules.units.size()) Fail("rules of normalisation point outside");
    const bool match = depth > 0 && (unit & (1u << 8)) != 0;
    if (match) {
      const size_t value = rules.units[children] & ~(1u << 31);
      if (value >= rules.replacements.size() || ContinuesCodePoint(rules.replacements[value]) ||
          rules.replacements.find('\0', value) - value > kLongestReplacement)
        Fail("rules of normalisation point outside");
    }
    int most = 0;
    for (uint32_t label = 1; label < 256; ++label) {
      const size_t child = children ^ label;
      if ((rules.units[child] & ((1u << 31) | 0xff)) == label)
        most = std::max(most, FollowRules(rules, child, depth + 1));
    }
    rules.matches[at] = most + (match ? 1 : 0);
    if (rules.matches[at] > kMostRuleMatches)
      Fail("too many rules of normalisation that begin alike");
    return rules.matches[at];
  }

  const std::string& name_;
  PieceModel model_;
};

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void PutNumber(int field, uint64_t value, std::string& out) {
  PutVarint(static_cast<uint64_t>(field << 3 | kVarint), out);
  PutVarint(value, out);
}

void PutBytes(int field, std::string_view bytes, std::string& out) {
  PutVarint(static_cast<uint64_t>(field << 3 | kBytes), out);
  PutVarint(bytes.size(), out);
  out += bytes;
}

}  // namespace

PieceModel ParsePieceModel(std::string_view bytes, const std::string& name) {
  return ModelReader(bytes, name).Take();
}

std::string SerializePieceModel(const PieceModel& model) {
  std::string out;
  for (const Piece& piece : model.pieces) {
    std::string message;
    PutBytes(kText, piece.text, message);
    PutVarint(kScore << 3 | kFixed32, message);
    message.append(reinterpret_cast<const char*>(&piece.score), sizeof(piece.score));
    PutNumber(kType, static_cast<uint64_t>(piece.type), message);
    PutBytes(kPieces, message, out);
  }
  std::string trainer, normalizer;
  PutNumber(kAlgorithm, model.algorithm, trainer);
  PutNumber(kSpaceBehind, model.space_behind ? 1 : 0, trainer);
  PutNumber(kByteFallback, model.byte_fallback ? 1 : 0, trainer);
  PutBytes(kTrainer, trainer, out);
  if (!model.rules.empty()) PutBytes(kRules, model.rules, normalizer);
  PutNumber(kDummyPrefix, model.dummy_prefix ? 1 : 0, normalizer);
  PutNumber(kRemoveExtraSpaces, model.remove_extra_spaces ? 1 : 0, normalizer);
  PutNumber(kEscapeSpaces, model.escape_spaces ? 1 : 0, normalizer);
  PutBytes(kNormalizer, normalizer, out);
  return out;
}

}  // namespace favor::data
