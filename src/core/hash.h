// A fast 64-bit hash of bytes, eight at a time: to identify data, not to withstand an attacker.
#ifndef FAVOR_CORE_HASH_H_
#define FAVOR_CORE_HASH_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace favor {

class Hasher {
 public:
  void Add(std::span<const std::byte> bytes) {
    size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) Mix(Word(bytes.data() + i, 8));
    if (i < bytes.size()) Mix(Word(bytes.data() + i, bytes.size() - i));
    Mix(bytes.size());  // pieces "ab", "c" and "a", "bc" differ
  }
  void Add(uint64_t number) { Mix(number); }

  uint64_t Value() const {  // the finish of MurmurHash3: every bit depends on every other
    uint64_t x = state_;
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
  }

 private:
  static uint64_t Word(const std::byte* from, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
  }
  void Mix(uint64_t word) {
    state_ = std::rotl((state_ ^ word) * 0x9e3779b97f4a7c15ULL, 29) * 0xbf58476d1ce4e5b9ULL;
  }

  uint64_t state_ = 0x243f6a8885a308d3ULL;
};

inline uint64_t HashOf(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.Add(bytes);
  return hasher.Value();
}

}  // namespace favor

#endif  // FAVOR_CORE_HASH_H_
