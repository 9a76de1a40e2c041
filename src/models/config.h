// Limits and names of model configs.
#ifndef FAVOR_MODELS_CONFIG_H_
#define FAVOR_MODELS_CONFIG_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace favor::models {

constexpr int64_t kMaxVocab = 1 << 20, kMaxWidth = 1 << 15, kMaxLayers = 1024, kMaxFf = 1 << 18,
                  kMaxLength = int64_t{1} << 24, kMaxTaps = 64;

std::span<const std::string_view> PositionNames();    // learned, sinusoidal, rotary, none
std::span<const std::string_view> NormNames();        // pre, post
std::span<const std::string_view> ActivationNames();  // gelu, relu

}  // namespace favor::models

#endif  // FAVOR_MODELS_CONFIG_H_
