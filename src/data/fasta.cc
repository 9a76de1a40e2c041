#include "data/fasta.h"

#include <algorithm>
#include <cstring>

#include "core/error_text.h"

namespace favor::data {
namespace {

constexpr size_t kLongestHeader = 1 << 20;
constexpr size_t kLongestRecord = size_t{1} << 31;

std::string_view FirstWord(std::string_view text) {
  return text.substr(0, text.find_first_of(" \t\r"));
}

}  // namespace

FastaReader::FastaReader(io::ByteStream& stream, const LetterVocabulary& alphabet)
    : stream_(stream), alphabet_(alphabet) {}

void FastaReader::Fail(const std::string& record, const std::string& what) const {
  const std::string who = record.empty() ? "" : fmt::format("record '{}', ", Printable(record));
  Throw(ErrorCode::kInvalidData, Printable(stream_.name()), "{}line {}, column {}: {}", who, line_,
        column_, what);
}

void FastaReader::EndLine() {
  place_ = Place::kLineStart;
  returned_ = false;
  ++line_;
  column_ = 1;
}

void FastaReader::Header(std::string_view piece) {
  header_ += piece;
  column_ += static_cast<int64_t>(piece.size());
  if (header_.size() > kLongestHeader)
    Fail("", fmt::format("a header longer than {} bytes", kLongestHeader));
}

void FastaReader::BeginRecord(FastaRecord& record) {
  if (header_.ends_with('\r')) header_.pop_back();
  if (header_.find('\r') != std::string::npos) {
    Throw(ErrorCode::kInvalidData, Printable(stream_.name()),
          "line {}, column {}: a carriage return inside a line", header_line_,
          header_.find('\r') + 1);
  }
  record.name = FirstWord(std::string_view(header_).substr(1));
  record.line = header_line_;
  record.tokens.clear();
  stopped_ = false;
  if (record.name.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(stream_.name()), "line {}: a record without a name",
          header_line_);
  }
}

void FastaReader::EndRecord(const FastaRecord& record) const {
  if (record.tokens.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(stream_.name()),
          "record '{}', line {}: has no sequence", Printable(record.name), record.line);
  }
}

// The fast path: a piece of a line that holds only letters.
void FastaReader::Letters(std::string_view piece, FastaRecord& record) {
  const size_t before = record.tokens.size();
  if (before + piece.size() > kLongestRecord)
    Fail(record.name, fmt::format("a record longer than {} letters", kLongestRecord));
  record.tokens.resize(before + piece.size());
  uint8_t* to = record.tokens.data() + before;
  const auto& codes = alphabet_.codes();
  uint8_t any = 0;
  for (size_t i = 0; i < piece.size(); ++i) {
    to[i] = codes[static_cast<unsigned char>(piece[i])];
    any |= to[i];
  }
  if ((any & LetterVocabulary::kNoLetter) == 0 && !stopped_ && !returned_) {
    column_ += static_cast<int64_t>(piece.size());
    return;
  }
  record.tokens.resize(before);
  OddLetters(piece, record);
}

void FastaReader::OddLetters(std::string_view piece, FastaRecord& record) {
  for (const char c : piece) {
    const uint8_t code = alphabet_.codes()[static_cast<unsigned char>(c)];
    if (returned_) {
      --column_;
      Fail(record.name, "a carriage return inside a line");
    }
    if (c == '\r') {
      returned_ = true;
    } else if (c == '*' && !stopped_) {
      stopped_ = true;
    } else if (c != ' ' && c != '\t') {
      if (stopped_) Fail(record.name, "more after '*', which ends a sequence");
      if (code == LetterVocabulary::kNoLetter) {
        Fail(record.name,
             fmt::format("given '{}', expected a letter of the {} alphabet ({})",
                         Printable(std::string(1, c)), alphabet_.name(), alphabet_.letters()));
      }
      record.tokens.push_back(code);
    }
    ++column_;
  }
}

bool FastaReader::Next(FastaRecord& record) {
  bool open = seen_header_;  // the header was read at the end of the previous record
  if (open) BeginRecord(record);
  for (;;) {
    if (rest_.empty()) rest_ = stream_.Next();
    if (rest_.empty()) {
      if (place_ == Place::kHeader && !open) {  // a header at the very end
        BeginRecord(record);
        open = true;
      }
      seen_header_ = false;
      if (open) EndRecord(record);
      return open;
    }
    if (place_ == Place::kLineStart) {
      if (rest_[0] == '>') {
        place_ = Place::kHeader;
        header_.clear();
        header_line_ = line_;
      } else {
        if (!open && rest_[0] != '\n' && rest_[0] != '\r')
          Fail("", fmt::format("given '{}', expected '>' and the name of a record",
                               Printable(rest_.substr(0, 1))));
        place_ = Place::kLetters;
      }
    }
    const void* found = std::memchr(rest_.data(), '\n', rest_.size());
    const size_t size = found == nullptr
                            ? rest_.size()
                            : static_cast<size_t>(static_cast<const char*>(found) - rest_.data());
    std::string_view piece = rest_.substr(0, size);
    rest_.remove_prefix(found == nullptr ? size : size + 1);
    if (found != nullptr && piece.ends_with('\r')) piece.remove_suffix(1);
    const bool header = place_ == Place::kHeader;
    if (header) {
      Header(piece);
    } else if (open) {
      Letters(piece, record);
    } else if (piece.find_first_not_of('\r') != std::string_view::npos) {
      Fail("", "expected '>' and the name of a record");
    }
    if (found == nullptr) continue;
    EndLine();
    if (!header) continue;
    if (open) {
      EndRecord(record);
      seen_header_ = true;  // for the next call
      return true;
    }
    BeginRecord(record);
    open = true;
  }
}

void RefuseDnaName(const std::string& path, Alphabet alphabet) {
  if (alphabet == Alphabet::kProtein && (path.ends_with(".fna") || path.ends_with(".fna.gz"))) {
    Throw(ErrorCode::kInvalidOption, "alphabet", "given protein for '{}', expected dna",
          Printable(path));
  }
}

void RefuseDnaLetters(const std::string& path, std::span<const int64_t> counts,
                      const LetterVocabulary& alphabet) {
  int64_t all = 0, others = 0, rarest = INT64_MAX;
  for (size_t i = 0; i < alphabet.letters().size(); ++i) {
    const char letter = alphabet.letters()[i];
    const bool base = std::string_view("ACGT").find(letter) != std::string_view::npos;
    all += counts[i];
    others += base || letter == 'N' ? 0 : counts[i];
    if (base) rarest = std::min(rarest, counts[i]);
  }
  if (all < kTellingLetters || others > 0 || rarest < all / 50) return;
  Throw(ErrorCode::kInvalidData, Printable(path),
        "has only the letters A, C, G, T and N and is read as protein, expected alphabet dna");
}

}  // namespace favor::data
