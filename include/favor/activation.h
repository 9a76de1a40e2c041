// The activation functions of feed-forward layers.
#ifndef FAVOR_ACTIVATION_H_
#define FAVOR_ACTIVATION_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "favor/names.h"

namespace favor {

enum class Activation : uint8_t {
  kGelu,      // x·Φ(x), Φ the normal distribution function
  kRelu,      // max(x, 0)
  kGeluTanh,  // x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2, the GELU of GPT-2 and others
};
template <>
inline constexpr auto kNamesOf<Activation> = std::to_array<std::string_view>({"gelu", "relu",
                                                                              "gelu-tanh"});

}  // namespace favor

#endif  // FAVOR_ACTIVATION_H_
