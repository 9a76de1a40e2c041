// FASTA: records of a header line ">name words…" and lines of letters.
#ifndef FAVOR_DATA_FASTA_H_
#define FAVOR_DATA_FASTA_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/alphabet.h"
#include "io/byte_stream.h"

namespace favor::data {

struct FastaRecord {
  std::string name;             // the first word of the header
  int64_t line = 0;             // line of the header, from 1
  std::vector<uint8_t> tokens;  // at least one
};

// Reads one record at a time, from a stream of any size. Windows line ends, blank lines, spaces and
// a final '*' (the end of a translation) are skipped; anything else that is not a letter is refused
// with record, line and column.
class FastaReader {
 public:
  FastaReader(io::ByteStream& stream, const LetterVocabulary& alphabet);

  // False at the end.
  bool Next(FastaRecord& record);

 private:
  enum class Place { kLineStart, kHeader, kLetters };

  void Header(std::string_view piece);
  void Letters(std::string_view piece, FastaRecord& record);
  void OddLetters(std::string_view piece, FastaRecord& record);
  void EndLine();
  void BeginRecord(FastaRecord& record);
  void EndRecord(const FastaRecord& record) const;
  [[noreturn]] void Fail(const std::string& record, const std::string& what) const;

  io::ByteStream& stream_;
  const LetterVocabulary& alphabet_;
  std::string_view rest_;  // rest of the piece being read
  std::string header_;     // header of the next record
  Place place_ = Place::kLineStart;
  int64_t line_ = 1, column_ = 1, header_line_ = 0;
  bool seen_header_ = false, stopped_ = false,
       returned_ = false;  // stopped_: after a '*'; returned_: after a '\r'
};

// The letters of DNA are amino acids too: what has no others is hardly a file of proteins. Throw if
// the name of a file read as protein says that it is DNA, or if its letters, by their counts, do.
// Fewer than kTellingLetters are not judged.
constexpr int64_t kTellingLetters = 100;
void RefuseDnaName(const std::string& path, Alphabet alphabet);
void RefuseDnaLetters(const std::string& path, std::span<const int64_t> counts,
                      const LetterVocabulary& alphabet);

}  // namespace favor::data

#endif  // FAVOR_DATA_FASTA_H_
