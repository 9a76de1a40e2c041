#include "data/alphabet.h"

#include <array>
#include <cctype>

#include "core/error_text.h"

namespace favor::data {

LetterVocabulary::LetterVocabulary(std::string_view name, std::string_view letters)
    : name_(name), letters_(letters) {
  codes_.fill(kNoLetter);
  for (size_t i = 0; i < letters.size(); ++i) {
    const auto letter = static_cast<unsigned char>(letters[i]);
    codes_[letter] = codes_[static_cast<size_t>(std::tolower(letter))] = static_cast<uint8_t>(i);
  }
}

SpecialTokens LetterVocabulary::special() const {
  const auto first = static_cast<int32_t>(ordinary());
  return {.begin = first, .end = first + 1, .hidden = first + 2, .padding = first + 3};
}

std::vector<int32_t> LetterVocabulary::Encode(std::string_view text, const std::string& who) const {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t code = codes_[static_cast<unsigned char>(text[i])];
    if (code == kNoLetter) {
      Throw(ErrorCode::kInvalidData, Printable(who),
            "column {}: given '{}', expected letters of the {} alphabet ({})", i + 1,
            Printable(text.substr(i, 1)), name_, letters_);
    }
    tokens.push_back(code);
  }
  return tokens;
}

std::string LetterVocabulary::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token >= 0 && token < ordinary()) text += letters_[static_cast<size_t>(token)];
  }
  return text;
}

std::string LetterVocabulary::Show(int32_t token) const {
  constexpr std::array<std::string_view, 4> kSpecial = {"<begin>", "<end>", "<hidden>",
                                                        "<padding>"};
  if (token < ordinary()) return std::string(1, letters_[static_cast<size_t>(token)]);
  return std::string(kSpecial.at(static_cast<size_t>(token - ordinary())));
}

std::shared_ptr<const LetterVocabulary> LettersOf(Alphabet alphabet) {
  // The 20 amino acids, then those that databases also hold: B (D or N), Z (E or Q), X (any),
  // U (selenocysteine), O (pyrrolysine).
  static const auto protein = std::make_shared<const LetterVocabulary>(Name(Alphabet::kProtein),
                                                                       "ACDEFGHIKLMNPQRSTVWY"
                                                                       "BZXUO");
  // The 4 bases, then the IUPAC codes for several bases: N any, R purine, Y pyrimidine, …
  static const auto dna = std::make_shared<const LetterVocabulary>(Name(Alphabet::kDna),
                                                                   "ACGT"
                                                                   "NRYSWKMBDHV");
  return alphabet == Alphabet::kDna ? dna : protein;
}

}  // namespace favor::data
