// UTF-8 as the standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef FAVOR_CORE_UTF8_H_
#define FAVOR_CORE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace favor {

// Whether a byte is inside a code point, not at its beginning.
inline bool ContinuesCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the code point that `text` begins with; 0: it does not begin with one.
size_t CodePointBytes(std::string_view text);

// Bytes of the longest beginning of `text` that is UTF-8.
size_t Utf8Prefix(std::string_view text);

// Throws kInvalidData if text is not UTF-8; `offset` is its place in what `who` names.
void CheckUtf8(std::string_view text, const std::string& who, int64_t offset = 0);

}  // namespace favor

#endif  // FAVOR_CORE_UTF8_H_
