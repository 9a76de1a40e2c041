// What a model is made of: presets, and whether a config can be built.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/error_text.h"
#include "favor/attention.h"
#include "favor/model.h"
#include "models/config.h"

namespace favor {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 4> kPresets = {"tiny", "small", "regular", "protein"};

void CheckName(std::string_view key, const std::string& given, Names names) {
  if (std::ranges::find(names, given) != names.end()) return;
  Throw(ErrorCode::kInvalidOption, key, "unknown name '{}'{}", Printable(given),
        Suggest(given, names));
}

void CheckRange(std::string_view key, int64_t given, int64_t least, int64_t most) {
  if (given >= least && given <= most) return;
  Throw(ErrorCode::kInvalidOption, key, "given {}, expected {} to {}", given, least, most);
}

}  // namespace

namespace models {

Names PositionNames() {
  static constexpr std::array<std::string_view, 4> kNames = {"learned", "sinusoidal", "rotary",
                                                             "none"};
  return kNames;
}
Names NormNames() {
  static constexpr std::array<std::string_view, 2> kNames = {"pre", "post"};
  return kNames;
}
Names ActivationNames() {
  static constexpr std::array<std::string_view, 2> kNames = {"gelu", "relu"};
  return kNames;
}

}  // namespace models

Names PresetNames() { return kPresets; }

ModelConfig Preset(std::string_view name) {
  if (name == "tiny") return {};
  // Performers paper, A.1: heads, layers, feed-forward, width.
  ModelConfig config;
  config.features.features = 256;
  const auto sizes = [&](int64_t heads, int64_t layers, int64_t ff, int64_t width) {
    config.heads = heads;
    config.layers = layers;
    config.ff = ff;
    config.width = width;
    return config;
  };
  if (name == "small") return sizes(1, 6, 64, 64);
  if (name == "regular") return sizes(8, 6, 2048, 512);
  if (name == "protein") return sizes(8, 36, 1024, 512);
  Throw(ErrorCode::kInvalidOption, "preset", "unknown name '{}'{}", Printable(name),
        Suggest(name, kPresets));
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
  if (config.positions == "learned" && config.max_length == 0)
    Throw(ErrorCode::kInvalidOption, "max_length",
          "given 0 with learned positions, expected their number (training fills it in), or other "
          "positions");
  CheckName("positions", config.positions, models::PositionNames());
  CheckName("norm", config.norm, models::NormNames());
  CheckName("activation", config.activation, models::ActivationNames());
  CheckName("attention", config.attention, AttentionNames());
  if (config.width % config.heads != 0) {
    Throw(ErrorCode::kInvalidOption, "width", "given {} with {} heads, expected a multiple of them",
          config.width, config.heads);
  }
  if (config.kv_heads != 0 && config.heads % config.kv_heads != 0) {
    Throw(ErrorCode::kInvalidOption, "kv_heads", "given {} with {} heads, expected a divisor",
          config.kv_heads, config.heads);
  }
  if (config.positions == "rotary" && config.width / config.heads % 2 != 0) {
    Throw(ErrorCode::kInvalidOption, "positions",
          "given rotary with heads of {} columns, expected an even number",
          config.width / config.heads);
  }
  if (config.positions == "sinusoidal" && config.width % 2 != 0) {
    Throw(ErrorCode::kInvalidOption, "positions",
          "given sinusoidal with a width of {}, expected an even number", config.width);
  }
  if (config.features.oprf_a.size() > 1) {  // files of models hold one
    Throw(ErrorCode::kInvalidOption, "oprf_a", "given {} values, expected one for all heads",
          config.features.oprf_a.size());
  }
  if (config.classes > 0 && config.causal)
    Throw(ErrorCode::kInvalidOption, "classes", "given {} of a decoder, expected an encoder",
          config.classes);
}

}  // namespace favor
