#include "models/config_fields.h"

#include "attention/option_fields.h"
#include "core/json.h"
#include "favor/attention.h"
#include "favor/linearised.h"
#include "features/option_fields.h"
#include "models/config.h"

namespace favor::models {

std::vector<Field> ChosenFields(ModelConfig& c) {
  std::vector<Field> fields = {
      {"width", "Numbers in a token's row", IntegerField{&c.width, 1, kMaxWidth}},
      {"layers", "Layers of attention and feed-forward", IntegerField{&c.layers, 1, kMaxLayers}},
      {"heads", "Heads of queries; they divide the width", IntegerField{&c.heads, 1, kMaxWidth}},
      {"kv_heads", "Heads of keys and values; 0: as many as of queries",
       IntegerField{&c.kv_heads, 0, kMaxWidth}},
      {"ff", "Width inside feed-forward layers", IntegerField{&c.ff, 1, kMaxFf}},
      {"positions", "How a token knows its place", Choice(c.positions)},
      {"max_length", "Number of learned positions; 0: the length of training",
       IntegerField{&c.max_length, 0, kMaxLength}},
      {"embedding_scale", "What embeddings are multiplied by; none: the root of the width",
       OptionalNumberField{&c.embedding_scale, kLeastScale, kMostScale}, /*sparse=*/true},
      {"norm", "Before or after attention and feed-forward", Choice(c.norm)},
      {"norm_epsilon", "The ε of norms", NumberField{&c.norm_epsilon, kLeastEpsilon, 1},
       /*sparse=*/true},
      {"activation", "Inside feed-forward layers", Choice(c.activation)},
      {"tied", "Output weights are those of the embedding", FlagField{&c.tied}},
      {"attention", "Kind of attention", NameField{&c.attention, AttentionNames()}},
      {"convolution", "Taps of short convolutions of queries, keys and values; 0: none",
       IntegerField{&c.convolution, 0, kMaxTaps}},
  };
  for (Field& field : attention::OptionFields(c.kind_options)) fields.push_back(std::move(field));
  for (Field& field : features::OptionFields(c.features)) fields.push_back(std::move(field));
  const std::vector<Field> heads = {
      {"decay", "Whether heads of linear attention forget: each at its own rate, or as tokens say",
       Choice(c.decay), /*sparse=*/true},
      {"feature_dim", "Dim that each head's queries and keys are projected to; 0: none",
       IntegerField{&c.feature_dim, 0, kMaxWidth}, /*sparse=*/true},
      {"heads_of", "Heads of several kinds, such as relu:4:decay=token,taylor:4:dim=16",
       TextField{&c.heads_of, "NAME:HEADS,..."}, /*sparse=*/true},
      {"exact_every", "Layers N, 2N, ... attend exactly; 0: none",
       IntegerField{&c.exact_every, 0, kMaxLayers}, /*sparse=*/true},
  };
  fields.insert(fields.end(), heads.begin(), heads.end());
  LinearisedLayers& l = c.linearised;
  const std::vector<Field> feed_forward = {
      {"feed_forward", "Feed-forward layers: as they are, or as products of features",
       Choice(c.feed_forward), /*sparse=*/true},
      {"ff_degree", "Degree of the polynomial in linearised layers",
       IntegerField{&l.degree, 1, Linearisation::kMaxDegree}, /*sparse=*/true},
      {"ff_columns", "Random columns of linearised layers, of all degrees above 1",
       IntegerField{&l.columns, 0, Linearisation::kMaxColumns}, /*sparse=*/true},
      {"ff_range", "Linearised layers replace the activation between -X and X",
       NumberField{&l.range, kLeastScale, kMostScale}, /*sparse=*/true},
      {"ff_fit", "How the polynomial of linearised layers is found", Choice(l.fit),
       /*sparse=*/true},
      {"ff_exact_quadratic", "Degree 2 of linearised layers without random columns",
       FlagField{&l.exact_quadratic}, /*sparse=*/true},
      {"ff_own_curves", "Every unit of linearised layers learns its own polynomial",
       FlagField{&l.own_curves}, /*sparse=*/true},
  };
  fields.insert(fields.end(), feed_forward.begin(), feed_forward.end());
  return fields;
}

std::vector<Field> ConfigFields(ModelConfig& c) {
  std::vector<Field> fields = {
      {"causal", "A decoder; off: an encoder", FlagField{&c.causal}},
      {"vocab", "Number of tokens; 0: bytes", IntegerField{&c.vocab, 0, kMaxVocab}},
      {"classes", "Classes that are told apart; 0: a language model",
       IntegerField{&c.classes, 0, kMaxVocab}},
      {"per_token", "Classes or numbers of each token, not of sequences", FlagField{&c.per_token},
       /*sparse=*/true},
      {"numbers", "Predict a number instead of a class", FlagField{&c.numbers}, /*sparse=*/true}};
  for (Field& field : ChosenFields(c)) fields.push_back(std::move(field));
  return fields;
}

Json ToJson(ModelConfig config) {
  ModelConfig standard;
  return FieldsToJson(ConfigFields(config), ConfigFields(standard));
}

}  // namespace favor::models
