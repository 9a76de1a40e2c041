// An order of 0 … count − 1 that is a pure function of a stream: nothing is stored, any place can
// be computed directly.
#ifndef FAVOR_DATA_PERMUTATION_H_
#define FAVOR_DATA_PERMUTATION_H_

#include <bit>
#include <cstdint>

#include "favor/random.h"

namespace favor::data {

// A Feistel network of four rounds on the smallest even number of bits that holds `count`; a result
// outside 0 … count − 1 is permuted again (at most four times on average).
class Permutation {
 public:
  Permutation(const RandomStream& stream, int64_t count)
      : stream_(stream),
        count_(static_cast<uint64_t>(count)),
        half_bits_((static_cast<int>(std::bit_width(count_ - 1)) + 1) / 2) {}

  int64_t At(int64_t place) const {
    auto x = static_cast<uint64_t>(place);
    if (count_ < 2) return place;
    do {
      x = Rounds(x);
    } while (x >= count_);
    return static_cast<int64_t>(x);
  }

 private:
  uint64_t Rounds(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = left ^ (stream_.Child(round).Bits(right) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  RandomStream stream_;
  uint64_t count_;
  int half_bits_;
};

}  // namespace favor::data

#endif  // FAVOR_DATA_PERMUTATION_H_
