#include "models/heads.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "attention/kind.h"
#include "core/element.h"
#include "core/error_text.h"
#include "core/host_copy.h"
#include "core/split.h"
#include "kernels/map_table.h"
#include "layers/head_decay.h"

namespace favor::models {
namespace {

constexpr std::string_view kKey = "heads_of";

int64_t Number(std::string_view text, std::string_view entry, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    Throw(ErrorCode::kInvalidOption, kKey, "given '{}' in '{}', expected a number from 1 to {}",
          Printable(text), Printable(entry), most);
  return value;
}

// Heads of one kind, with what the config says of such heads.
HeadsAlike Heads(std::string_view kind_name, const ModelConfig& config) {
  const attention::Kind& kind = attention::FindKind(kind_name);
  HeadsAlike heads{.heads = config.heads, .attention = std::string(kind_name)};
  for (const AttentionOptionInfo& info : kind.options()) {
    const auto given = config.kind_options.find(info.name);
    if (given != config.kind_options.end()) heads.kind_options.insert(*given);
  }
  if (!kind.TakesPlan()) return heads;
  heads.features = config.features;
  if (kind.TakesDecay()) heads.decay = config.decay;
  heads.feature_dim = config.feature_dim;
  return heads;
}

bool TakesPolynomial(std::string_view map) {
  const kernels::MapEntry& entry = *kernels::FindMap(map);
  return entry.IsRowMap() && entry.row.coefficients.empty();
}

// "relu:2:decay=token".
HeadsAlike ParseEntry(std::string_view entry, const ModelConfig& config) {
  const std::vector<std::string_view> words = SplitAt(entry, ':');
  HeadsAlike heads;
  if (const std::string name(words[0]); kernels::FindMap(name) != nullptr) {
    heads = Heads("linear", config);
    heads.features.map = name;
    if (!TakesPolynomial(name)) {
      const FeatureOptions standard;
      heads.features.degree = standard.degree;
      heads.features.coefficients = standard.coefficients;
      heads.features.rotate = standard.rotate;
    }
    if (!FindMap(name).takes_width) heads.features.local_width = FeatureOptions().local_width;
    if (name != "local-ball") heads.features.local_smoothing = FeatureOptions().local_smoothing;
  } else if (std::ranges::find(AttentionNames(), name) != AttentionNames().end() &&
             name != "linear") {
    heads = Heads(name, config);
  } else {
    Throw(ErrorCode::kInvalidOption, kKey,
          "given '{}' in '{}', expected a map of linear attention or another kind: {}",
          Printable(name), Printable(entry), fmt::join(AttentionNames(), ", "));
  }
  if (words.size() < 2)
    Throw(ErrorCode::kInvalidOption, kKey, "given '{}', expected NAME:HEADS", Printable(entry));
  heads.heads = Number(words[1], entry, config.heads);
  for (const std::string_view word : std::span(words).subspan(2)) {
    const size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals),
                           value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (key == "features") {
      heads.features.features = Number(value, entry, FeaturePlan::kMaxFeatures);
    } else if (key == "degree") {
      heads.features.degree = Number(value, entry, kernels::kMaxPolynomialDegree);
    } else if (key == "dim") {
      heads.feature_dim = Number(value, entry, config.width / config.heads);
    } else if (key == "decay") {
      heads.decay = Named<Decay>(value, kKey);
    } else {
      Throw(ErrorCode::kInvalidOption, kKey,
            "given '{}' in '{}', expected features=N, degree=N, dim=N or decay=KIND",
            Printable(word), Printable(entry));
    }
    const attention::Kind& kind = attention::FindKind(heads.attention);
    if (!kind.TakesPlan() || (key == "decay" && !kind.TakesDecay()))
      Throw(ErrorCode::kInvalidOption, kKey, "given '{}' for {} attention in '{}'", Printable(word),
            heads.attention, Printable(entry));
  }
  return heads;
}

AttentionOptions OptionsOf(const ModelConfig& config, const HeadsAlike& heads) {
  AttentionOptions options{.attention = heads.attention, .causal = config.causal};
  options.kind_options = heads.kind_options;
  options.features = heads.features;
  const int64_t dim = heads.feature_dim > 0 ? heads.feature_dim : config.width / config.heads;
  // A must be frozen before any call: this one suits queries and keys of variance 1, as they are at
  // first.
  if (FindMap(options.features.map).takes_a && options.features.oprf_a.empty())
    options.features.oprf_a = {OptimalOprfA(2 * std::sqrt(static_cast<double>(dim)), dim)};
  return options;
}

}  // namespace

std::string HeadsAlike::Text() const {
  const attention::Kind& kind = attention::FindKind(attention);
  std::vector<std::string> facts;
  if (kind.TakesPlan()) {
    facts.push_back(features.map);
    if (TakesPolynomial(features.map))
      facts.push_back(features.coefficients.empty()
                          ? fmt::format("degree {}", features.degree)
                          : fmt::format("coefficients {}", fmt::join(features.coefficients, " ")));
    if (FindMap(features.map).takes_width)
      facts.push_back(fmt::format("width {}", features.local_width));
    if (kernels::FindMap(features.map)->traits->info.is_random)
      facts.push_back(fmt::format("{} features", features.features));
    if (feature_dim > 0) facts.push_back(fmt::format("{} dims", feature_dim));
    if (decay != Decay::kNone) facts.push_back(fmt::format("{} decay", Name(decay)));
  }
  const std::vector<int64_t> values = attention::KindOptionValues(kind, kind_options);
  for (size_t i = 0; i < values.size(); ++i)
    facts.push_back(fmt::format("{} {}", kind.options()[i].name, values[i]));
  return (heads == 0 ? "" : fmt::format("{} × ", heads)) + attention +
         (heads == 0 ? " attention" : "") +
         (facts.empty() ? "" : fmt::format(" ({})", fmt::join(facts, ", ")));
}

namespace {

bool IsExact(const ModelConfig& config, int64_t layer) {
  return config.exact_every > 0 && (layer + 1) % config.exact_every == 0;
}

// The heads of layers that exact_every leaves as they are.
std::vector<HeadsAlike> UsualHeads(const ModelConfig& config) {
  if (config.heads_of.empty()) return {Heads(config.attention, config)};
  std::vector<HeadsAlike> all;
  int64_t total = 0;
  for (const std::string_view entry : SplitAt(config.heads_of, ',')) {
    all.push_back(ParseEntry(entry, config));
    total += all.back().heads;
  }
  if (total != config.heads)
    Throw(ErrorCode::kInvalidOption, kKey, "given '{}', {} heads in all, expected {}",
          Printable(config.heads_of), total, config.heads);
  return all;
}

}  // namespace

std::vector<HeadsAlike> HeadsOf(const ModelConfig& config, int64_t layer) {
  return IsExact(config, layer) ? std::vector{Heads("exact", config)} : UsualHeads(config);
}

layers::AttentionShape AttentionShapeOf(const ModelConfig& config, int64_t layer) {
  layers::AttentionShape shape{.width = config.width};
  shape.convolution = config.convolution;
  const int64_t dim = config.width / config.heads,
                shared = config.kv_heads == 0 ? 1 : config.heads / config.kv_heads;
  int64_t first = 0;
  for (const HeadsAlike& heads : HeadsOf(config, layer)) {
    layers::HeadGroup group{.heads = heads.heads,
                            .kv_heads = heads.heads / shared,
                            .dim = dim,
                            .value_dim = dim,
                            .options = OptionsOf(config, heads),
                            .feature_dim = heads.feature_dim};
    for (int64_t head = 0; head < heads.heads && heads.decay != Decay::kNone; ++head)
      group.memories.push_back(layers::FirstMemory(first + head, config.heads));
    if (heads.decay != Decay::kNone) shape.decay_per_token = heads.decay == Decay::kToken;
    first += heads.heads;
    shape.Add(std::move(group));
  }
  return shape;
}

void CheckHeads(const ModelConfig& config) {
  const int64_t dim = config.width / config.heads,
                shared = config.kv_heads == 0 ? 1 : config.heads / config.kv_heads;
  if (config.feature_dim < 0 || config.feature_dim > dim)
    Throw(ErrorCode::kInvalidOption, "feature_dim",
          "given {} with heads of {} columns, expected at most that", config.feature_dim, dim);
  const std::vector<HeadsAlike> all = UsualHeads(config);
  KindOptions used;
  bool takes_plan = false, takes_decay = false, takes_width = false;
  Decay decay = Decay::kNone;
  for (const HeadsAlike& heads : all) {
    const attention::Kind& kind = attention::FindKind(heads.attention);
    attention::KindOptionValues(kind, heads.kind_options);
    used.insert(heads.kind_options.begin(), heads.kind_options.end());
    takes_plan = takes_plan || kind.TakesPlan();
    takes_decay = takes_decay || kind.TakesDecay();
    takes_width = takes_width || (kind.TakesPlan() && FindMap(heads.features.map).takes_width);
    if (heads.heads % shared != 0)
      Throw(ErrorCode::kInvalidOption, kKey,
            "given {} heads next to others, expected a multiple of {}: so many share keys",
            heads.heads, shared);
    if (heads.decay == Decay::kNone) continue;
    if (!config.causal)
      Throw(ErrorCode::kInvalidOption, "decay", "given '{}' for an encoder, expected a decoder",
            Name(heads.decay));
    if (decay != Decay::kNone && decay != heads.decay)
      Throw(ErrorCode::kInvalidOption, kKey,
            "given fixed and token decays in one layer, expected one of them");
    decay = heads.decay;
  }
  for (const auto& [name, value] : config.kind_options) {
    if (!used.contains(name))
      Throw(ErrorCode::kInvalidOption, "attention", "given {}, which '{}' attention does not have",
            Printable(name),
            config.heads_of.empty() ? config.attention : Printable(config.heads_of));
  }
  const auto check = [&](bool given, bool takes, std::string_view key,
                         std::string_view expected = "linear attention") {
    if (given && !takes)
      Throw(ErrorCode::kInvalidOption, key, "given for {}, expected {}", AttentionText(config),
            expected);
  };
  check(config.decay != Decay::kNone, takes_decay, "decay");
  check(config.feature_dim > 0, takes_plan, "feature_dim");
  check(config.features.local_width != FeatureOptions().local_width, takes_width, "local_width",
        "a map local-…");
}

HeadMemories MemoriesOf(const ModelConfig& config, const layers::ParameterSet* parameters) {
  HeadMemories memories;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const layers::AttentionShape shape = AttentionShapeOf(config, layer);
    std::vector<double> all = shape.memories;
    const std::string bias = fmt::format("layers.{}.attention.decay.bias", layer);
    for (size_t i = 0; parameters != nullptr && i < parameters->all().size(); ++i) {
      const layers::Parameter& parameter = *parameters->all()[i];
      if (parameter.name != bias) continue;
      const HostCopy value(parameter.value);
      for (size_t head = 0; head < all.size(); ++head)
        all[head] = 1 + std::exp(LoadElement(value.view().data(), value.view().type(),
                                             static_cast<int64_t>(head)));
    }
    memories.emplace_back();
    for (const layers::HeadGroup& group : shape.groups) {
      for (int64_t head = 0; head < group.heads; ++head) {
        memories.back().emplace_back();
        if (group.Forgets())
          memories.back().back() = all[static_cast<size_t>(group.first_forgetting + head)];
      }
    }
  }
  return memories;
}

std::string AttentionText(const ModelConfig& config) {
  const bool mixed = !config.heads_of.empty();
  std::vector<std::string> kinds;
  for (HeadsAlike heads : UsualHeads(config)) {
    if (!mixed) heads.heads = 0;
    kinds.push_back(heads.Text());
  }
  std::string text = fmt::format("{}{}", fmt::join(kinds, ", "), mixed ? " attention" : "");
  std::vector<int64_t> exact;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (IsExact(config, layer)) exact.push_back(layer + 1);
  }
  if (!exact.empty())
    text +=
        fmt::format(", exact in layer{} {}", exact.size() > 1 ? "s" : "", fmt::join(exact, ", "));
  return text;
}

}  // namespace favor::models
