#include "data/text_file.h"

#include <algorithm>

#include "core/error_text.h"
#include "core/utf8.h"

namespace favor::data {

void TextCounter::Add(std::string_view text, bool follows) {
  if (!follows) between_ = true;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    words_ += !space && between_ ? 1 : 0;
    between_ = space;
    characters_ += ContinuesCodePoint(c) ? 0 : 1;
  }
}

void TextCounter::Store(SplitSummary& summary) const {
  summary.words = words_;
  summary.characters = characters_;
}

size_t NextCut(std::string_view text, bool last) {
  const size_t line = text.substr(0, kLongestCut).find('\n');
  if (line != std::string_view::npos) return line + 1;
  if (text.size() <= kLongestCut) return last ? text.size() : 0;
  size_t cut = kLongestCut;
  while (cut > kLongestCut - 3 && ContinuesCodePoint(text[cut])) --cut;
  return cut;
}

int64_t NextBoundary(const io::InputFile& file, int64_t at, int64_t end) {
  constexpr int64_t kReach = 1 << 16;
  if (at <= 0 || at >= end) return std::clamp<int64_t>(at, 0, end);
  std::string text(static_cast<size_t>(std::min(kReach, end - at + 1)), '\0');
  file.ReadAt(at - 1, std::as_writable_bytes(std::span(text)));  // a line may begin right here
  if (const size_t line = text.find('\n'); line != std::string::npos)
    return at + static_cast<int64_t>(line);
  size_t skip = 1;
  while (skip < std::min<size_t>(text.size(), 4) && ContinuesCodePoint(text[skip])) ++skip;
  return at + static_cast<int64_t>(skip) - 1;
}

void RefuseBinary(const InputFiles& files) {
  for (size_t i = 0; i < files.names().size(); ++i) {
    io::ByteStream stream = files.Open(i);
    if (const size_t zero = stream.Next().find('\0'); zero != std::string_view::npos) {
      Throw(ErrorCode::kInvalidData, Printable(files.names()[i]),
            "byte {} is 0, as in binary files, expected text (kind text reads any bytes)",
            zero + 1);
    }
  }
}

}  // namespace favor::data
