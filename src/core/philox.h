// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): 128 random
// bits as a pure function of a counter and a key, on CPU and GPU alike.
#ifndef FAVOR_CORE_PHILOX_H_
#define FAVOR_CORE_PHILOX_H_

#include <cstdint>

#include "core/host_device.h"

namespace favor {

constexpr int kPhiloxRounds = 10;
constexpr uint32_t kPhiloxEven = 0xD2511F53, kPhiloxOdd = 0xCD9E8D57;  // factors of each round

// Weyl sequences: the golden ratio, and √3 − 1.
struct PhiloxKey {
  FAVOR_HOST_DEVICE explicit PhiloxKey(uint64_t seed)
      : k0(static_cast<uint32_t>(seed)), k1(static_cast<uint32_t>(seed >> 32)) {}
  FAVOR_HOST_DEVICE void Advance() {
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }

  uint32_t k0, k1;
};

struct PhiloxBlock {
  uint32_t word[4];
};

// Block `index` of stream `id` under the key `seed`.
FAVOR_HOST_DEVICE inline PhiloxBlock Philox(uint64_t seed, uint64_t id, uint64_t index) {
  auto c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  auto c2 = static_cast<uint32_t>(id), c3 = static_cast<uint32_t>(id >> 32);
  PhiloxKey key(seed);
  for (int round = 0; round < kPhiloxRounds; ++round, key.Advance()) {
    const uint64_t even = uint64_t{kPhiloxEven} * c0, odd = uint64_t{kPhiloxOdd} * c2;
    c0 = static_cast<uint32_t>(odd >> 32) ^ c1 ^ key.k0;
    c1 = static_cast<uint32_t>(odd);
    c2 = static_cast<uint32_t>(even >> 32) ^ c3 ^ key.k1;
    c3 = static_cast<uint32_t>(even);
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace favor

#endif  // FAVOR_CORE_PHILOX_H_
