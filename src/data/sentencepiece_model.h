// A SentencePiece model file: a ModelProto message of protocol buffers. SentencePiece itself trusts
// what it is given, so only what was checked here is handed to it.
#ifndef FAVOR_DATA_SENTENCEPIECE_MODEL_H_
#define FAVOR_DATA_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace favor::data {

enum class PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct PieceModel {
  std::vector<Piece> pieces;
  uint64_t algorithm = 1;  // unigram, byte pairs, words, characters
  bool byte_fallback = false;
  bool space_behind = false;  // spaces belong to the word before them
  // How text is normalised.
  std::string_view rules;  // a trie and its replacements; empty: text is left as it is
  bool dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;

  // Whether the pieces of any text, concatenated, are that text.
  bool Exact() const {
    return byte_fallback && rules.empty() && !dummy_prefix && !remove_extra_spaces && escape_spaces;
  }
};

// Views point into `bytes`. Throws kInvalidData.
PieceModel ParsePieceModel(std::string_view bytes, const std::string& name);

// A model file with the fields of `model` and nothing else.
std::string SerializePieceModel(const PieceModel& model);

}  // namespace favor::data

#endif  // FAVOR_DATA_SENTENCEPIECE_MODEL_H_
