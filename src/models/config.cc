// Presets of model configs, and checks that a config can be built.
#include "models/config.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/error_text.h"
#include "models/feed_forward.h"
#include "models/heads.h"

namespace favor {
namespace {

// tiny: the defaults of ModelConfig. The others: Performers paper, A.1.
constexpr std::array<models::Sizes, 4> kPresets = {{
    {.name = "tiny", .width = 128, .layers = 2, .heads = 4, .ff = 512, .features = 64},
    {.name = "small", .width = 64, .layers = 6, .heads = 1, .ff = 64, .features = 256},
    {.name = "regular", .width = 512, .layers = 6, .heads = 8, .ff = 2048, .features = 256},
    {.name = "protein", .width = 512, .layers = 36, .heads = 8, .ff = 1024, .features = 256},
}};

constexpr auto kPresetNames = [] {
  std::array<std::string_view, kPresets.size()> names;
  std::ranges::transform(kPresets, names.begin(), &models::Sizes::name);
  return names;
}();

template <class Number>
void CheckRange(std::string_view key, Number given, std::type_identity_t<Number> least,
                std::type_identity_t<Number> most) {
  if (given >= least && given <= most) return;
  Throw(ErrorCode::kInvalidOption, key, "given {}, expected {} to {}", given, least, most);
}

}  // namespace

std::span<const models::Sizes> models::Presets() { return kPresets; }

void models::ApplyPreset(std::string_view name, ModelConfig& config) {
  const Sizes& sizes = kPresets[FindName(name, kPresetNames, "preset")];
  config.width = sizes.width;
  config.layers = sizes.layers;
  config.heads = sizes.heads;
  config.ff = sizes.ff;
  config.features.features = sizes.features;
}

std::span<const std::string_view> PresetNames() { return kPresetNames; }

ModelConfig Preset(std::string_view name) {
  ModelConfig config;
  models::ApplyPreset(name, config);
  return config;
}

void CheckConfig(const ModelConfig& config) {
  CheckRange("vocab", config.vocab, 1, models::kMaxVocab);
  CheckRange("classes", config.classes, 0, models::kMaxVocab);
  CheckRange("width", config.width, 1, models::kMaxWidth);
  CheckRange("layers", config.layers, 1, models::kMaxLayers);
  CheckRange("heads", config.heads, 1, models::kMaxWidth);
  CheckRange("kv_heads", config.kv_heads, 0, config.heads);
  CheckRange("convolution", config.convolution, 0, models::kMaxTaps);
  CheckRange("ff", config.ff, 1, models::kMaxFf);
  CheckRange("max_length", config.max_length, 0, models::kMaxLength);
  if (config.positions == Positions::kLearned && config.max_length == 0)
    Throw(ErrorCode::kInvalidOption, "max_length",
          "given 0 with learned positions, expected their number (training fills it in), or other "
          "positions");
  CheckRange("norm_epsilon", config.norm_epsilon, models::kLeastEpsilon, 1.0);
  CheckRange("embedding_scale", config.embedding_scale.value_or(1), models::kLeastScale,
             models::kMostScale);
  if (config.width % config.heads != 0) {
    Throw(ErrorCode::kInvalidOption, "width", "given {} with {} heads, expected a multiple of them",
          config.width, config.heads);
  }
  if (config.kv_heads != 0 && config.heads % config.kv_heads != 0) {
    Throw(ErrorCode::kInvalidOption, "kv_heads", "given {} with {} heads, expected a divisor",
          config.kv_heads, config.heads);
  }
  if (config.positions == Positions::kRotary && config.width / config.heads % 2 != 0) {
    Throw(ErrorCode::kInvalidOption, "positions",
          "given rotary with heads of {} columns, expected an even number",
          config.width / config.heads);
  }
  if (config.positions == Positions::kSinusoidal && config.width % 2 != 0) {
    Throw(ErrorCode::kInvalidOption, "positions",
          "given sinusoidal with a width of {}, expected an even number", config.width);
  }
  if (config.features.oprf_a.size() > 1) {  // files of models hold one
    Throw(ErrorCode::kInvalidOption, "oprf_a", "given {} values, expected one for all heads",
          config.features.oprf_a.size());
  }
  CheckRange("exact_every", config.exact_every, 0, models::kMaxLayers);
  models::CheckHeads(config);
  models::CheckFeedForward(config);
  if (config.numbers && config.classes != 1)
    Throw(ErrorCode::kInvalidOption, "classes", "given {} with numbers, expected 1",
          config.classes);
  if (config.per_token && config.classes == 0)
    Throw(ErrorCode::kInvalidOption, "per_token", "given without classes, expected them");
}

}  // namespace favor
