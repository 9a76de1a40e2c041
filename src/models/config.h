// Limits and presets of model configs.
#ifndef FAVOR_MODELS_CONFIG_H_
#define FAVOR_MODELS_CONFIG_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "favor/model.h"

namespace favor::models {

constexpr int64_t kMaxVocab = 1 << 20, kMaxWidth = 1 << 15, kMaxLayers = 1024, kMaxFf = 1 << 18,
                  kMaxLength = int64_t{1} << 24, kMaxTaps = 64;

constexpr double kLeastEpsilon = 1e-30, kLeastScale = 1e-6, kMostScale = 1e6;

// What a preset says of a model.
struct Sizes {
  std::string_view name;
  int64_t width, layers, heads, ff, features;
};
constexpr std::array<std::string_view, 5> kSizeFields = {"width", "layers", "heads", "ff",
                                                         "features"};
std::span<const Sizes> Presets();
// Sets the sizes alone. Throws kInvalidOption for a name that no preset has.
void ApplyPreset(std::string_view name, ModelConfig& config);

}  // namespace favor::models

#endif  // FAVOR_MODELS_CONFIG_H_
