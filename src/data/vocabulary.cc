// Vocabularies that need no file: bytes, numbers, and the alphabets.
#include "favor/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error_text.h"
#include "data/alphabet.h"

namespace favor {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"bytes", "protein", "dna", "pixels"};

class Bytes : public Vocabulary {
 public:
  std::string_view name() const override { return "bytes"; }
  int64_t size() const override { return kByteVocab; }
  int64_t ordinary() const override { return 256; }
  SpecialTokens special() const override { return {.hidden = 256, .padding = 257}; }

  std::vector<int32_t> Encode(std::string_view text, const std::string&) const override {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string Decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < 256) text += static_cast<char>(token);
    }
    return text;
  }
  std::string Show(int32_t token) const override {
    if (token > ' ' && token < 127) return std::string(1, static_cast<char>(token));
    if (token == ' ') return "' '";
    return token < 256 ? fmt::format("0x{:02x}", token) : token == 256 ? "<hidden>" : "<padding>";
  }
};

class NumberVocabulary : public Vocabulary {
 public:
  NumberVocabulary(std::string_view name, int64_t ordinary, bool special)
      : name_(name), ordinary_(ordinary), special_(special) {}

  std::string_view name() const override { return name_; }
  int64_t size() const override { return ordinary_ + (special_ ? 3 : 0); }
  int64_t ordinary() const override { return ordinary_; }
  SpecialTokens special() const override {
    if (!special_) return {};
    const auto first = static_cast<int32_t>(ordinary_);
    return {.begin = first, .end = {}, .hidden = first + 1, .padding = first + 2};
  }

  std::vector<int32_t> Encode(std::string_view text, const std::string& who) const override {
    std::vector<int32_t> tokens;
    for (const char* at = text.data(); at != text.data() + text.size();) {
      if (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
        ++at;
        continue;
      }
      int32_t token = -1;
      const auto [end, error] = std::from_chars(at, text.data() + text.size(), token);
      if (error != std::errc() || token < 0 || token >= ordinary_) {
        Throw(ErrorCode::kInvalidData, Printable(who),
              "column {}: expected numbers from 0 to {} with spaces between them",
              at - text.data() + 1, ordinary_ - 1);
      }
      tokens.push_back(token);
      at = end;
    }
    return tokens;
  }
  std::string Decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < ordinary_) text += fmt::format("{} ", token);
    }
    return text;
  }
  std::string Show(int32_t token) const override {
    constexpr std::array<std::string_view, 3> kSpecial = {"<begin>", "<hidden>", "<padding>"};
    if (token < ordinary_) return std::to_string(token);
    return std::string(kSpecial.at(static_cast<size_t>(token - ordinary_)));
  }

 private:
  std::string_view name_;
  int64_t ordinary_;
  bool special_;
};

}  // namespace

std::shared_ptr<const Vocabulary> data::Numbers(std::string_view name, int64_t ordinary,
                                                bool special) {
  return std::make_shared<const NumberVocabulary>(name, ordinary, special);
}

std::span<const std::string_view> VocabularyNames() { return kNames; }

std::shared_ptr<const Vocabulary> OpenVocabulary(std::string_view name) {
  if (name == "bytes") return std::make_shared<const Bytes>();
  if (name == "pixels") return data::Numbers("pixels", 256, /*special=*/true);
  for (const Alphabet alphabet : {Alphabet::kProtein, Alphabet::kDna}) {
    if (name == Name(alphabet)) return data::LettersOf(alphabet);
  }
  Throw(ErrorCode::kInvalidOption, "vocabulary", "unknown name '{}'{}", Printable(name),
        Suggest(name, kNames));
}

}  // namespace favor
