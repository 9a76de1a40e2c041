// Storage formats of 16 bits: IEEE binary16 (f16) and bfloat16 (bf16), converted by bits so that
// every compiler and CPU gives the same result. Rounding is to nearest, ties to even, once (from
// double).
#ifndef FAVOR_CORE_HALF_H_
#define FAVOR_CORE_HALF_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace favor {

namespace internal {

// Rounds `value` to a format of 1 sign bit, `kExponentBits` and `kFractionBits`.
template <int kExponentBits, int kFractionBits>
inline uint16_t Narrow(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kFractionBits;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | kInfinity | (1 << (kFractionBits - 1)));
  if (magnitude == 0 || std::isinf(magnitude)) {
    return static_cast<uint16_t>(sign | (magnitude == 0 ? 0 : kInfinity));
  }
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - kBias) exponent = 1 - kBias;  // subnormal: the spacing stops shrinking
  // The value in units of its last place; nearbyint rounds ties to even.
  const double units = std::nearbyint(std::ldexp(magnitude, kFractionBits - exponent));
  // Adding works across the subnormal boundary and when rounding carries into the exponent.
  const double bits =
      units + std::ldexp(static_cast<double>(exponent - (1 - kBias)), kFractionBits);
  return static_cast<uint16_t>(sign |
                               (bits >= kInfinity ? kInfinity : static_cast<uint16_t>(bits)));
}

}  // namespace internal

inline uint16_t ToF16(double value) { return internal::Narrow<5, 10>(value); }
inline uint16_t ToBF16(double value) { return internal::Narrow<8, 7>(value); }

inline float FromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: fraction · 2⁻²⁴
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

}  // namespace favor

#endif  // FAVOR_CORE_HALF_H_
