// Which split a token or a record belongs to.
#ifndef FAVOR_DATA_DIVISION_H_
#define FAVOR_DATA_DIVISION_H_

#include <array>
#include <cstdint>
#include <string>

#include "favor/data.h"

namespace favor::data {

constexpr int64_t kBlockTokens = 8192;  // of Division::Blocks
constexpr int64_t kBlocksOfGroup = 20;  // one of them is held out

// By a hash of what a record holds.
Split SplitOf(uint64_t hash, const DataFormat& format);

// By place in a stream of tokens.
class Division {
 public:
  // A run of tokens of one split.
  struct Run {
    Split split;
    int64_t end;  // the first token behind it
  };

  // The end is held out: first the part to validate, then the part to test. Throws kInvalidData,
  // naming `source`, if a part that was asked for has no token.
  static Division Place(const std::string& source, int64_t tokens, const DataFormat& format);
  // One block in twenty, drawn for each twenty, is held out, to validate and to test in turn.
  // Throws kInvalidData for fewer than 40 blocks, and kInvalidOption for shares other than the
  // default.
  static Division Blocks(const std::string& source, int64_t tokens, const DataFormat& format);

  // By place: where train, valid and test end.
  const std::array<int64_t, 3>& ends() const { return ends_; }
  // The split of token `at`, and up to where it surely reaches.
  Run At(int64_t at) const;
  static Split SplitOfBlock(int64_t block);  // by its number

 private:
  Division() = default;

  bool blocks_ = false;
  std::array<int64_t, 3> ends_{};
};

}  // namespace favor::data

#endif  // FAVOR_DATA_DIVISION_H_
