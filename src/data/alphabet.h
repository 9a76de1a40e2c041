// Letters of biological sequences.
#ifndef FAVOR_DATA_ALPHABET_H_
#define FAVOR_DATA_ALPHABET_H_

#include <array>
#include <memory>
#include <string>

#include "favor/data.h"

namespace favor::data {

// One token per letter, upper or lower case; then begin, end, hidden and padding.
class LetterVocabulary : public Vocabulary {
 public:
  LetterVocabulary(std::string_view name, std::string_view letters);

  static constexpr uint8_t kNoLetter =
      0x80;  // this bit is set in the codes of bytes that are not letters
  const std::array<uint8_t, 256>& codes() const { return codes_; }
  std::string_view letters() const { return letters_; }

  std::string_view name() const override { return name_; }
  int64_t size() const override { return ordinary() + 4; }
  int64_t ordinary() const override { return static_cast<int64_t>(letters_.size()); }
  SpecialTokens special() const override;
  std::vector<int32_t> Encode(std::string_view text, const std::string& who) const override;
  std::string Decode(std::span<const int32_t> tokens) const override;
  std::string Show(int32_t token) const override;

 private:
  std::string_view name_, letters_;
  std::array<uint8_t, 256> codes_;
};

std::shared_ptr<const LetterVocabulary> LettersOf(Alphabet alphabet);

// Tokens 0 … ordinary − 1 as numbers with spaces between them: pixels (with a begin token) and
// generated tasks.
std::shared_ptr<const Vocabulary> Numbers(std::string_view name, int64_t ordinary, bool special);

}  // namespace favor::data

#endif  // FAVOR_DATA_ALPHABET_H_
