#include "models/config_fields.h"

#include "core/json.h"
#include "favor/attention.h"
#include "models/config.h"

namespace favor::models {
namespace {

std::vector<std::string_view> List(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

template <class Infos>
std::vector<std::string_view> NamesOf(const Infos& infos) {
  std::vector<std::string_view> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

constexpr std::string_view kMapsOwn = "map";

}  // namespace

ConfigFields::ConfigFields(ModelConfig& config)
    : config_(config),
      omega_norm_(config.features.omega_norm ? Name(*config.features.omega_norm) : kMapsOwn) {
  if (!config.features.oprf_a.empty()) oprf_a_ = config.features.oprf_a[0];
}

std::vector<Field> ConfigFields::Chosen() {
  ModelConfig& c = config_;
  return {
      {"width", "Numbers in a token's row", IntegerField{&c.width, 1, kMaxWidth}},
      {"layers", "Layers of attention and feed-forward", IntegerField{&c.layers, 1, kMaxLayers}},
      {"heads", "Heads of queries; they divide the width", IntegerField{&c.heads, 1, kMaxWidth}},
      {"kv_heads", "Heads of keys and values; 0: as many as of queries",
       IntegerField{&c.kv_heads, 0, kMaxWidth}},
      {"ff", "Width inside feed-forward layers", IntegerField{&c.ff, 1, kMaxFf}},
      {"positions", "How a token knows its place",
       ChoiceField{&c.positions, List(PositionNames())}},
      {"max_length", "Number of learned positions; 0: the length of training",
       IntegerField{&c.max_length, 0, kMaxLength}},
      {"norm", "Before or after attention and feed-forward",
       ChoiceField{&c.norm, List(NormNames())}},
      {"activation", "Inside feed-forward layers",
       ChoiceField{&c.activation, List(ActivationNames())}},
      {"tied", "Output weights are those of the embedding", FlagField{&c.tied}},
      {"attention", "Kind of attention", ChoiceField{&c.attention, List(AttentionNames())}},
      {"convolution", "Taps of short convolutions of queries, keys and values; 0: none",
       IntegerField{&c.convolution, 0, kMaxTaps}},
      {"map", "Feature map of linear attention (favor info lists them)",
       ChoiceField{&c.features.map, NamesOf(Maps())}},
      {"projection", "How ω is drawn (favor info lists the ways)",
       ChoiceField{&c.features.projection, NamesOf(Projections())}},
      {"features", "Number m of rows of ω",
       IntegerField{&c.features.features, 1, FeaturePlan::kMaxFeatures}},
      {"omega_norm", "Lengths of ω's rows; map: what the map needs",
       ChoiceField{&omega_norm_, {kMapsOwn, "chi", "sqrt-d"}}},
      {"shared_omega", "One ω for all heads", FlagField{&c.features.shared_omega}},
      {"kernel_epsilon", "Added to every feature of a generalized map",
       OptionalNumberField{&c.features.kernel_epsilon, 0, 1e6}},
      {"oprf_a", "The constant A of the map oprf", OptionalNumberField{&oprf_a_, -1e6, 0.125}},
  };
}

std::vector<Field> ConfigFields::Derived() {
  ModelConfig& c = config_;
  return {
      {"causal", "A decoder; off: an encoder", FlagField{&c.causal}},
      {"vocab", "Number of tokens; 0: bytes", IntegerField{&c.vocab, 0, kMaxVocab}},
      {"classes", "Of a classifier; 0: a language model", IntegerField{&c.classes, 0, kMaxVocab}}};
}

std::vector<Field> ConfigFields::All() {
  std::vector<Field> all = Derived();
  for (Field& field : Chosen()) all.push_back(std::move(field));
  return all;
}

Json ToJson(ModelConfig config) { return FieldsToJson(ConfigFields(config).All()); }

void ConfigFields::Store() {
  config_.features.omega_norm.reset();
  if (omega_norm_ == Name(OmegaNorm::kChi)) config_.features.omega_norm = OmegaNorm::kChi;
  if (omega_norm_ == Name(OmegaNorm::kSqrtD)) config_.features.omega_norm = OmegaNorm::kSqrtD;
  config_.features.oprf_a.clear();
  if (oprf_a_) config_.features.oprf_a = {*oprf_a_};
}

}  // namespace favor::models
