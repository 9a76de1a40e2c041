#include "data/division.h"

#include <algorithm>
#include <cmath>

#include "core/error_text.h"
#include "favor/random.h"

namespace favor::data {

Split SplitOf(uint64_t hash, const DataFormat& format) {
  const double place = static_cast<double>(hash >> 11) * 0x1p-53;
  if (place < format.test) return Split::kTest;
  return place < format.test + format.valid ? Split::kValid : Split::kTrain;
}

HeldOutHashes::HeldOutHashes(std::vector<uint64_t>& hashes, const DataFormat& format) {
  std::ranges::sort(hashes);
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  const auto count = std::ssize(hashes);
  // Of four or more at least one for each share; what is learned from keeps one.
  int64_t end = 0;
  const auto end_of = [&](double share) -> uint64_t {
    if (share > 0 && count >= 4) {
      const auto held = std::max<int64_t>(1, std::llround(share * static_cast<double>(count)));
      end = std::min(end + held, count - 1);
    }
    return end == 0 ? 0 : hashes[static_cast<size_t>(end)];
  };
  test_end_ = end_of(format.test);
  valid_end_ = end_of(format.valid);
}

Split HeldOutHashes::SplitOf(uint64_t hash) const {
  if (hash < test_end_) return Split::kTest;
  return hash < valid_end_ ? Split::kValid : Split::kTrain;
}

Division Division::Place(const std::string& source, int64_t tokens, const DataFormat& format) {
  const auto share = [&](double part) {
    return static_cast<int64_t>(part * static_cast<double>(tokens));
  };
  const int64_t test = share(format.test), valid = share(format.valid);
  if ((format.valid > 0 && valid == 0) || (format.test > 0 && test == 0)) {
    Throw(ErrorCode::kInvalidData, Printable(source),
          "given {} tokens, too few to hold out {} to validate and {} to test", tokens,
          format.valid, format.test);
  }
  Division division;
  division.ends_ = {tokens - valid - test, tokens - test, tokens};
  return division;
}

Division Division::Blocks(const std::string& source, int64_t tokens, const DataFormat& format) {
  const DataFormat standard;
  if (format.valid != standard.valid || format.test != standard.test) {
    Throw(ErrorCode::kInvalidOption, "shares",
          "given with split_by blocks, which holds out one block in {}: expected none",
          kBlocksOfGroup);
  }
  if (tokens < 2 * kBlocksOfGroup * kBlockTokens) {
    Throw(ErrorCode::kInvalidData, Printable(source),
          "given {} tokens, expected at least {} to divide by blocks (split_by place takes fewer)",
          tokens, 2 * kBlocksOfGroup * kBlockTokens);
  }
  Division division;
  division.blocks_ = true;
  return division;
}

Split Division::SplitOfBlock(int64_t block) {
  static const RandomStream stream(0, "blocks that are held out");
  const int64_t group = block / kBlocksOfGroup;
  const auto held_out =
      static_cast<int64_t>(stream.Bits(static_cast<uint64_t>(group)) % kBlocksOfGroup);
  if (block % kBlocksOfGroup != held_out) return Split::kTrain;
  return group % 2 == 0 ? Split::kValid : Split::kTest;
}

Division::Run Division::At(int64_t at) const {
  if (blocks_) return {SplitOfBlock(at / kBlockTokens), (at / kBlockTokens + 1) * kBlockTokens};
  size_t part = 0;
  while (part + 1 < ends_.size() && at >= ends_[part]) ++part;
  return {static_cast<Split>(part), part + 1 < ends_.size() ? ends_[part] : INT64_MAX};
}

}  // namespace favor::data
