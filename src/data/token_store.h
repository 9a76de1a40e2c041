// Tokens on disk: read by place, so that data may be far larger than memory.
#ifndef FAVOR_DATA_TOKEN_STORE_H_
#define FAVOR_DATA_TOKEN_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/hash.h"
#include "data/division.h"
#include "favor/data.h"
#include "io/input_file.h"
#include "io/scratch_file.h"

namespace favor::data {

// Numbers of 1, 2, 4 or 8 bytes, one after the other in a file.
class NumberFile {
 public:
  NumberFile() = default;
  NumberFile(std::shared_ptr<const io::InputFile> file, int item_bytes, int64_t first_byte,
             int64_t size)
      : file_(std::move(file)), item_bytes_(item_bytes), first_byte_(first_byte), size_(size) {}

  int64_t size() const { return size_; }
  // out[i] = number first + i.
  void Read(int64_t first, std::span<int32_t> out) const;
  uint64_t At(int64_t index) const;

 private:
  std::shared_ptr<const io::InputFile> file_;
  int item_bytes_ = 1;
  int64_t first_byte_ = 0, size_ = 0;
};

class NumberFileWriter {
 public:
  explicit NumberFileWriter(int item_bytes) : item_bytes_(item_bytes) {}
  void Append(std::span<const int32_t> numbers);
  void Append(std::span<const uint8_t> numbers);
  void Append(uint64_t number);
  int64_t size() const { return size_; }
  NumberFile Finish();

 private:
  int item_bytes_;
  int64_t size_ = 0;
  io::ScratchFile file_;
};

int ItemBytes(int64_t count);  // size of the smallest numbers that hold 0 … count − 1

// Records of one split, each a run of tokens; the whole is also one stream.
struct StoredSplit {
  NumberFile tokens;
  NumberFile ends;  // where records end in `tokens`
  // Ends of runs of tokens that follow each other in the data: no window reaches across. Only for
  // streams; empty: one run.
  std::vector<int64_t> run_ends;
  NumberFile labels;  // of records or of tokens, as Labels gives them; may be empty
  SplitSummary summary;

  int64_t records() const { return ends.size(); }
  int64_t RecordTokens(int64_t index) const;
  // At most `most` tokens of a record, from `first` on.
  std::vector<int32_t> Record(int64_t index, int64_t first, int64_t most) const;
  // The label of a record, and those of at most `most` of its first tokens.
  uint32_t Label(int64_t index) const { return static_cast<uint32_t>(labels.At(index)); }
  std::vector<uint32_t> TokenLabels(int64_t index, int64_t most) const;
};
using StoredSplits = std::array<StoredSplit, kSplits>;

// Writes one split of a stream: runs of tokens, and which of them follow each other.
class StreamWriter {
 public:
  explicit StreamWriter(int64_t vocab);
  // `follows`: continues the run before; otherwise windows do not reach from one into the other.
  void Append(std::span<const int32_t> tokens, bool follows);
  const std::vector<int64_t>& counts() const { return counts_; }  // by token
  StoredSplit Finish();

 private:
  NumberFileWriter tokens_;
  std::vector<int64_t> run_ends_, counts_;
};

class RecordWriter {
 public:
  // Records hold tokens below 256; with an `end`, that token follows each of them in the stream.
  explicit RecordWriter(std::optional<int32_t> end);
  // Adds a whole record to one split. Windows of a stream reach from record to record of a split.
  // Labels are given for all records or for none.
  void Add(Split split, std::span<const uint8_t> tokens, std::span<const uint32_t> labels = {});
  // Adds a record that is divided by its place in the stream of all records, end tokens included:
  // its pieces count as records. Windows reach only over tokens that follow each other there.
  void Add(const Division& division, std::span<const uint8_t> tokens);
  StoredSplits Finish();
  std::string Content() const;      // fingerprint of records
  std::string Fingerprint() const;  // fingerprint of records and their splits
  // How often each token occurs in the train split, [vocab]. An end token follows each record if
  // the vocabulary has one; in a stream, it does not follow pieces that another split continues.
  std::vector<int64_t> TrainCounts(const Vocabulary& vocabulary) const;

 private:
  struct Part {
    explicit Part(int item_bytes) : tokens(item_bytes), ends(8), labels(4) {}
    NumberFileWriter tokens, ends, labels;
    std::vector<int64_t> run_ends;
    SplitSummary summary;
  };

  void Append(Split split, std::span<const uint8_t> tokens, bool last);

  std::optional<int32_t> end_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::array<int64_t, 256> train_counts_{};
  Hasher content_, hasher_;
  int64_t train_ends_ = 0;
  int64_t records_ = 0, place_ = 0;  // place_: in the stream of all records
  std::optional<Split> open_;        // the split whose run may be continued, by place
};

}  // namespace favor::data

#endif  // FAVOR_DATA_TOKEN_STORE_H_
