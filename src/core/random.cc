#include "favor/random.h"

#include <array>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/philox.h"

namespace favor {
namespace {

// FNV-1a, 64 bits.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The finaliser of SplitMix64: a bijection in which every input bit reaches every output bit.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double ToUniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

uint64_t Word(const std::array<uint32_t, 4>& block, int half) {
  const auto i = static_cast<size_t>(2 * half);
  return block[i] | (static_cast<uint64_t>(block[i + 1]) << 32);
}

// Box–Muller: both normals of a block. 1 − u lies in (0, 1], so the logarithm is finite.
std::pair<double, double> NormalPair(const std::array<uint32_t, 4>& block) {
  const double radius = std::sqrt(-2 * std::log(1 - ToUniform(Word(block, 0))));
  const double angle = 2 * std::numbers::pi * ToUniform(Word(block, 1));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, std::string_view name)
    : RandomStream(seed, Mix(HashName(name))) {}

RandomStream RandomStream::Child(uint64_t index) const { return {seed_, Mix(id_ ^ Mix(index))}; }

std::array<uint32_t, 4> RandomStream::Block(uint64_t index) const {
  const PhiloxBlock block = Philox(seed_, id_, index);
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

uint64_t RandomStream::Bits(uint64_t index) const {
  return Word(Block(index / 2), static_cast<int>(index % 2));
}

double RandomStream::Uniform(uint64_t index) const { return ToUniform(Bits(index)); }

double RandomStream::Normal(uint64_t index) const {
  const auto [even, odd] = NormalPair(Block(index / 2));
  return index % 2 == 0 ? even : odd;
}

void RandomStream::FillNormal(uint64_t first, std::span<double> out) const {
  size_t i = 0;
  if (first % 2 == 1 && !out.empty()) out[i++] = Normal(first);
  for (; i + 1 < out.size(); i += 2) {
    std::tie(out[i], out[i + 1]) = NormalPair(Block((first + i) / 2));
  }
  if (i < out.size()) out[i] = Normal(first + i);
}

}  // namespace favor
