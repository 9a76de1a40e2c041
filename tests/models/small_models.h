// Two-layer models and batches for tests.
#ifndef FAVOR_TESTS_MODELS_SMALL_MODELS_H_
#define FAVOR_TESTS_MODELS_SMALL_MODELS_H_

#include <algorithm>
#include <span>

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
  if (config.classes > 0) {
    result.targets.clear();
    for (int64_t i = 0; i < batch; ++i)
      result.targets.push_back(static_cast<int32_t>(i % config.classes));
  }
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

inline size_t Largest(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace favor

#endif  // FAVOR_TESTS_MODELS_SMALL_MODELS_H_
