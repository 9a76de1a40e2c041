// Tokens and what they stand for: bytes of text, amino acids, bases, pixels, pieces of words.
//
//   auto vocabulary = favor::OpenVocabulary("protein");
//   std::vector<int32_t> tokens = vocabulary->Encode("MKTAYIAK", "my text");
#ifndef FAVOR_VOCABULARY_H_
#define FAVOR_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace favor {

constexpr int64_t kByteVocab = 258;  // text: bytes, one token that hides a byte, and padding

// Tokens that do not stand for text.
struct SpecialTokens {
  std::optional<int32_t> begin, end;  // begin and end of a record; text has none
  int32_t hidden = 0;                 // in place of a masked token
  int32_t padding = 0;
};

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  virtual std::string_view name() const = 0;
  virtual int64_t size() const = 0;      // tokens are 0 … size − 1
  virtual int64_t ordinary() const = 0;  // tokens below this one stand for text
  virtual SpecialTokens special() const = 0;
  // Throws kInvalidData, naming `who` and the place, if some of the text has no token.
  virtual std::vector<int32_t> Encode(std::string_view text, const std::string& who) const = 0;
  // Special tokens are left out. Decoding what was encoded gives the text again.
  virtual std::string Decode(std::span<const int32_t> tokens) const = 0;
  // A token as a person may read it in a table: "A", "' '", "0x0a", "<end>".
  virtual std::string Show(int32_t token) const = 0;
  // Differs between vocabularies that differ.
  virtual std::string Fingerprint() const { return std::string(name()); }
};

// The names: bytes, protein, dna, pixels.
std::span<const std::string_view> VocabularyNames();
std::shared_ptr<const Vocabulary> OpenVocabulary(std::string_view name);  // throws kInvalidOption

}  // namespace favor

#endif  // FAVOR_VOCABULARY_H_
