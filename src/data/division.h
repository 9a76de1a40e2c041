// Which split a token or a record belongs to.
#ifndef FAVOR_DATA_DIVISION_H_
#define FAVOR_DATA_DIVISION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "favor/data.h"

namespace favor::data {

constexpr int64_t kBlockTokens = 8192;  // tokens per block of Division::Blocks
constexpr int64_t kBlocksOfGroup = 20;  // one block of each group is held out

// The split of a record by a hash of what it holds.
Split SplitOf(uint64_t hash, const DataFormat& format);

// Splits of records that are alike, such as those of one class: of `hashes`, theirs, the smallest
// are held out, as many different ones as the format's shares say; of four or more, at least one
// for each share, of fewer none, and never all. Equal hashes stay together. Sorts `hashes`, and
// keeps one of equal ones.
class HeldOutHashes {
 public:
  HeldOutHashes(std::vector<uint64_t>& hashes, const DataFormat& format);
  Split SplitOf(uint64_t hash) const;

 private:
  uint64_t test_end_ = 0, valid_end_ = 0;  // hashes below these are in the test or the valid split
};

// Divides a stream of tokens by place.
class Division {
 public:
  // A run of tokens of one split.
  struct Run {
    Split split;
    int64_t end;  // the first token after it
  };

  // The end is held out: first the valid part, then the test part. Throws kInvalidData, naming
  // `source`, if a requested part has no token.
  static Division Place(const std::string& source, int64_t tokens, const DataFormat& format);
  // One block in twenty, drawn within each twenty, is held out, alternately for valid and test.
  // Throws kInvalidData for fewer than 40 blocks, and kInvalidOption for shares other than the
  // default.
  static Division Blocks(const std::string& source, int64_t tokens, const DataFormat& format);

  // Where train, valid and test end, if divided by place.
  const std::array<int64_t, 3>& ends() const { return ends_; }
  // The split of token `at`, and a place up to which it surely reaches.
  Run At(int64_t at) const;
  static Split SplitOfBlock(int64_t block);  // `block`: its number

 private:
  Division() = default;

  bool blocks_ = false;
  std::array<int64_t, 3> ends_{};
};

}  // namespace favor::data

#endif  // FAVOR_DATA_DIVISION_H_
