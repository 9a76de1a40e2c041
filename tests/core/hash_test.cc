#include "core/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace favor {
namespace {

// Words of eight bytes and every length of a tail: a change of any byte, and of the length, gives
// another hash.
TEST(Hash, EveryByteCounts) {
  std::set<uint64_t> seen;
  size_t hashes = 0;
  for (size_t size = 0; size <= 20; ++size) {
    std::vector<std::byte> bytes(size);
    seen.insert(HashOf(bytes));
    ++hashes;
    for (std::byte& byte : bytes) {
      byte = std::byte{1};
      seen.insert(HashOf(bytes));
      ++hashes;
      byte = std::byte{0};
    }
  }
  EXPECT_EQ(seen.size(), hashes);
}

TEST(Hash, PiecesAreNotJoined) {
  const std::vector<std::byte> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  const auto hash = [&](size_t cut) {
    Hasher hasher;
    hasher.Add(std::span(bytes).first(cut));
    hasher.Add(std::span(bytes).subspan(cut));
    return hasher.Value();
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

}  // namespace
}  // namespace favor
