// Which attention each head of each layer uses, as a config says it.
#ifndef FAVOR_MODELS_HEADS_H_
#define FAVOR_MODELS_HEADS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "favor/model.h"
#include "layers/head_groups.h"
#include "layers/parameter.h"

namespace favor::models {

// Neighbouring heads that are alike.
struct HeadsAlike {
  int64_t heads = 0;
  std::string attention = "linear";
  FeatureOptions features;
  KindOptions kind_options;
  Decay decay = Decay::kNone;
  int64_t feature_dim = 0;  // 0: queries and keys are not projected

  // "4 × linear (relu, 64 features, token decay)", without the number if it is 0.
  std::string Text() const;
};

// The heads of a layer. Throws kInvalidOption for a heads_of that does not fit the config.
std::vector<HeadsAlike> HeadsOf(const ModelConfig& config, int64_t layer);

layers::AttentionShape AttentionShapeOf(const ModelConfig& config, int64_t layer);

// Throws kInvalidOption if some layer cannot be built.
void CheckHeads(const ModelConfig& config);

// What heads that forget remember, in tokens, by layer and head: 1 + e^b, where b is the bias of
// their decay; nothing for the others. Without a model: what they begin with.
using HeadMemories = std::vector<std::vector<std::optional<double>>>;
HeadMemories MemoriesOf(const ModelConfig& config, const layers::ParameterSet* parameters);

// "linear attention (positive, 64 features)", "exact attention", or one entry for each kind of
// head.
std::string AttentionText(const ModelConfig& config);

}  // namespace favor::models

#endif  // FAVOR_MODELS_HEADS_H_
