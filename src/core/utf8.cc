#include "core/utf8.h"

#include "core/error_text.h"

namespace favor {

size_t CodePointBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!ContinuesCodePoint(text[i])) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : size;
}

size_t Utf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = CodePointBytes(text.substr(at, 4));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

void CheckUtf8(std::string_view text, const std::string& who, int64_t offset) {
  const size_t valid = Utf8Prefix(text);
  if (valid == text.size()) return;
  Throw(ErrorCode::kInvalidData, Printable(who), "byte offset {}: not UTF-8 (0x{:02x})",
        offset + static_cast<int64_t>(valid), static_cast<unsigned char>(text[valid]));
}

}  // namespace favor
