// Tokens on disk: read by place, so that data may be far larger than memory.
#ifndef FAVOR_DATA_TOKEN_STORE_H_
#define FAVOR_DATA_TOKEN_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/hash.h"
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

int ItemBytes(int64_t count);  // of the smallest numbers that hold 0 … count − 1

// Records of one split, each a run of tokens; the whole is also one stream.
struct StoredSplit {
  NumberFile tokens;
  NumberFile ends;  // of records in `tokens`
  SplitSummary summary;

  int64_t records() const { return ends.size(); }
  // The first tokens of a record, at most `most`.
  std::vector<int32_t> Record(int64_t index, int64_t most) const;
};
using StoredSplits = std::array<StoredSplit, kSplits>;

// Which split a record belongs to, by a hash of what it holds.
Split SplitOf(uint64_t hash, const DataFormat& format);

class RecordWriter {
 public:
  // Records hold tokens below 256; with an `end`, that token follows each of them in the stream.
  explicit RecordWriter(std::optional<int32_t> end);
  void Add(Split split, std::span<const uint8_t> tokens);
  StoredSplits Finish();
  std::string Fingerprint() const;

 private:
  struct Part {
    explicit Part(int item_bytes) : tokens(item_bytes), ends(8) {}
    NumberFileWriter tokens, ends;
    SplitSummary summary;
  };

  std::optional<int32_t> end_;
  std::vector<std::unique_ptr<Part>> parts_;
  Hasher hasher_;
  int64_t records_ = 0;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_TOKEN_STORE_H_
