// Counter-based random numbers: draw number `index` of a stream is a pure function of (seed,
// stream, index), so it does not matter who draws first, on which thread or machine.
#ifndef FAVOR_RANDOM_H_
#define FAVOR_RANDOM_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace favor {

class RandomStream {
 public:
  // Streams of different names or seeds are independent.
  RandomStream(uint64_t seed, std::string_view name);

  // An independent stream derived from this one: for a head, a redraw, a layer, a step.
  RandomStream Child(uint64_t index) const;

  std::array<uint32_t, 4> Block(uint64_t index) const;  // Philox4x32-10, 128 bits
  uint64_t Bits(uint64_t index) const;                  // 64 bits: half of block index / 2
  double Uniform(uint64_t index) const;                 // 53 bits in [0, 1)
  double Normal(uint64_t index) const;                  // Box–Muller in double
  double Sign(uint64_t index) const { return Bits(index) >> 63 ? -1.0 : 1.0; }

  // What names the stream among all others: a key and an id, so that a GPU can draw from it too.
  uint64_t seed() const { return seed_; }
  uint64_t id() const { return id_; }

  // out[i] = Normal(first + i), at half the cost of single calls.
  void FillNormal(uint64_t first, std::span<double> out) const;

 private:
  RandomStream(uint64_t seed, uint64_t id) : seed_(seed), id_(id) {}

  uint64_t seed_;
  uint64_t id_;
};

}  // namespace favor

#endif  // FAVOR_RANDOM_H_
