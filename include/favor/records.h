// What a source holds, one record after the other in the order of its files: FASTA records, lines
// of text, pictures.
//
//   auto reader = favor::OpenRecords("proteins.fasta.gz", {});
//   for (favor::Record record; reader->Next(record);) …
#ifndef FAVOR_RECORDS_H_
#define FAVOR_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "favor/data.h"

namespace favor {

struct Record {
  // FASTA: the first word of the header. Text: the number of the line, from 1, or of the token
  // that a window begins after. Pictures: the name of the file, or the number in the array, from 0.
  std::string name;
  // Tokens of text begin with one that is there to be read, not predicted: the end of a line before
  // each line, the last token of the window before. The end of a line belongs to the line, even if
  // a file ends without one.
  std::vector<int32_t> tokens;
};

struct RecordOptions {
  DataFormat format;   // only how tokens are made: nothing is divided or left out
  int64_t window = 0;  // text: > 0: windows of so many tokens instead of lines
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // False at the end. Throws kInvalidData where a file is damaged; records before that place have
  // been read by then.
  virtual bool Next(Record& record) = 0;
  virtual void Rewind() = 0;  // to the first record
  // What all records have in common: "28 × 28 × 1" (height, width, channels) for pictures.
  virtual std::string Shape() const { return ""; }
};

// `source` is a file, a folder, several files separated by commas or "-", as for OpenData (of
// pictures, a file or a folder); it may be far larger than memory. Lines are numbered over all
// files. Throws if there is no such file, for a generated task, and for lines of a tokenizer that
// leaves out their ends.
std::unique_ptr<RecordReader> OpenRecords(const std::string& source, const RecordOptions& options);

}  // namespace favor

#endif  // FAVOR_RECORDS_H_
