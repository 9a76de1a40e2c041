// Two-layer models and batches for tests.
#ifndef FAVOR_TESTS_MODELS_SMALL_MODELS_H_
#define FAVOR_TESTS_MODELS_SMALL_MODELS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "favor/model.h"
#include "favor/random.h"

namespace favor {

inline ModelConfig SmallConfig(bool causal = true) {
  ModelConfig config;
  config.causal = causal;
  config.vocab = 7;
  config.width = 8;
  config.layers = 2;
  config.heads = 2;
  config.ff = 12;
  config.max_length = 6;
  config.features.features = 8;
  return config;
}

// Labels in place of targets: of each sequence, or of all tokens but some. Sequences of decoders
// that learn labels end with padding as well.
inline void AddSmallLabels(const ModelConfig& config, Batch& batch) {
  if (batch.mask.empty()) batch.mask.assign(batch.tokens.size(), 1);
  batch.mask.back() = 0;
  batch.targets.clear();
  const int64_t labels = batch.batch * (config.per_token ? batch.length : 1);
  for (int64_t i = 0; i < labels; ++i) {
    const bool known = !config.per_token || (i % 5 != 3 && batch.mask[static_cast<size_t>(i)] > 0);
    if (config.numbers) {
      batch.values.push_back(known ? 0.75f * static_cast<float>(i) - 1 : std::nanf(""));
    } else {
      batch.targets.push_back(known ? static_cast<int32_t>(i % config.classes) : kNoTarget);
    }
  }
}

// Targets at all positions but some; an encoder's second sequence ends with padding.
inline Batch SmallBatch(const ModelConfig& config, int64_t batch = 2, int64_t length = 6) {
  const RandomStream stream(5, "tokens");
  Batch result{.batch = batch, .length = length};
  for (int64_t i = 0; i < batch * length; ++i) {
    const auto at = static_cast<uint64_t>(i);
    const auto token = [&](uint64_t index) {
      return static_cast<int32_t>(stream.Uniform(index) * static_cast<double>(config.vocab));
    };
    result.tokens.push_back(token(2 * at));
    result.targets.push_back(i % 5 == 3 ? kNoTarget : token(2 * at + 1));
    if (!config.causal) result.mask.push_back(i >= batch * length - 2 ? 0.0f : 1.0f);
  }
  if (!config.causal) result.targets.back() = kNoTarget;
  if (config.classes > 0) AddSmallLabels(config, result);
  return result;
}

inline ModelConfig DecoderConfig() {
  ModelConfig config = SmallConfig();
  config.vocab = 23;
  config.width = 32;
  config.heads = 4;
  config.ff = 48;
  config.features.features = 24;
  config.positions = Positions::kRotary;
  return config;
}

inline std::vector<int32_t> Tokens(int64_t count, int64_t vocab) {
  return SmallBatch({.vocab = vocab}, 1, count).tokens;
}

// Kinds of attention that need the option `window`.
inline bool TakesWindow(std::string_view attention) {
  return attention == "exact-window" || attention == "window" || attention == "hybrid";
}

// A decoder with this kind of attention, which remembers up to 40 tokens; with convolutions its
// heads share keys.
inline ModelConfig DecoderConfig(const std::string& attention, Positions positions, int64_t taps) {
  ModelConfig config = DecoderConfig();
  config.attention = attention;
  if (TakesWindow(attention)) config.kind_options = {{"window", 5}};
  config.positions = positions;
  config.max_length = 40;
  config.convolution = taps;
  config.kv_heads = taps == 0 ? 0 : 2;
  return config;
}

// A model whose weight of the last layer's values is out of range during the life of this object.
class SpoiledWeight {
 public:
  explicit SpoiledWeight(Model& model) {
    for (const Model::NamedParameter& parameter : model.Parameters()) {
      if (parameter.name == "layers.1.attention.value.weight") weight_ = parameter.value;
    }
    if (weight_.empty()) throw std::logic_error("the model has no such weight");
    const float bad = std::numeric_limits<float>::infinity();
    CopyBytes(&good_, {}, weight_.data(), weight_.device(), sizeof good_);
    CopyBytes(weight_.data(), weight_.device(), &bad, {}, sizeof bad);
  }
  ~SpoiledWeight() { CopyBytes(weight_.data(), weight_.device(), &good_, {}, sizeof good_); }
  SpoiledWeight(const SpoiledWeight&) = delete;
  SpoiledWeight& operator=(const SpoiledWeight&) = delete;

 private:
  View weight_;
  float good_ = 0;
};

inline size_t Largest(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace favor

#endif  // FAVOR_TESTS_MODELS_SMALL_MODELS_H_
