// Text on disk: read a piece at a time, counted, and cut into units that are encoded as a whole.
#ifndef FAVOR_DATA_TEXT_FILE_H_
#define FAVOR_DATA_TEXT_FILE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/input_files.h"
#include "favor/data.h"
#include "io/input_file.h"

namespace favor::data {

// Bytes [begin, end) of a file, a piece at a time.
template <class Visit>
void ForEachPiece(const io::InputFile& file, int64_t begin, int64_t end, const Visit& visit) {
  constexpr int64_t kPiece = 1 << 20;
  std::string piece;
  for (int64_t at = begin; at < end; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, end - at)));
    file.ReadAt(at, std::as_writable_bytes(std::span(piece)));
    visit(std::string_view(piece));
  }
}

// Counts words and code points as they pass.
class TextCounter {
 public:
  // `follows`: whether the text continues what was added before; otherwise a new word begins.
  void Add(std::string_view text, bool follows = true);
  void Store(SplitSummary& summary) const;

 private:
  int64_t words_ = 0, characters_ = 0;
  bool between_ = true;
};

// The number of bytes at the front of `text` to encode as one: a line with its end, or kLongestCut
// bytes of a longer line, cut between code points. 0 if that depends on text that has not been read
// yet, never if `text` is the `last`. How text is cut depends on where it begins, not on the pieces
// in which it is read.
constexpr size_t kLongestCut = 1 << 14;
size_t NextCut(std::string_view text, bool last);

// Bytes [begin, end) of a file as runs of whole cuts, visited with their place in the file.
template <class Visit>
void ForEachRun(const io::InputFile& file, int64_t begin, int64_t end, const Visit& visit) {
  std::string waiting;
  int64_t place = begin;  // place of `waiting` in the file
  const auto pass = [&](bool last) {
    size_t size = 0;
    for (;;) {
      const size_t cut = NextCut(std::string_view(waiting).substr(size), last);
      if (cut == 0) break;
      size += cut;
    }
    if (size == 0) return;
    visit(std::string_view(waiting).substr(0, size), place);
    waiting.erase(0, size);
    place += static_cast<int64_t>(size);
  };
  ForEachPiece(file, begin, end, [&](std::string_view piece) {
    waiting += piece;
    pass(/*last=*/false);
  });
  pass(/*last=*/true);
}

// The first place from `at` on where text may be divided: the beginning of a line within 64 KiB,
// otherwise of a code point.
int64_t NextBoundary(const io::InputFile& file, int64_t at, int64_t end);

// Throws if a file begins like a binary one: a file with a zero byte is not text in any encoding
// that favor reads; UTF-16 has many.
void RefuseBinary(const InputFiles& files);

}  // namespace favor::data

#endif  // FAVOR_DATA_TEXT_FILE_H_
