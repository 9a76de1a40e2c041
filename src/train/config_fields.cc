#include "train/config_fields.h"

#include "core/error_text.h"
#include "core/json.h"
#include "favor/version.h"
#include "models/config.h"
#include "models/config_fields.h"

namespace favor {
namespace train {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;

// What UseRecommended sets.
void CopySettings(const RunConfig& from, RunConfig& to) {
  to.model.features.map = from.model.features.map;
  to.model.positions = from.model.positions;
  to.model.convolution = from.model.convolution;
  to.model.decay = from.model.decay;
  to.training.redraw = from.training.redraw;
}

}  // namespace

void UsePaper(RunConfig& config) { CopySettings(RunConfig(), config); }

std::vector<Field> TrainFields(TrainConfig& c) {
  return {
      {"steps", "Steps of the optimizer", IntegerField{&c.steps, 1, kMany}},
      {"batch", "Sequences at a time", IntegerField{&c.batch, 1, 1 << 20}},
      {"length", "Tokens per sequence; 0: 512, or the length of a picture or task",
       IntegerField{&c.length, 0, models::kMaxLength}},
      {"accumulate", "Batches whose gradients make one step",
       IntegerField{&c.accumulate, 1, 1 << 20}},
      {"learning_rate", "Full learning rate", NumberField{&c.learning_rate, 0, 1e3}},
      {"schedule", "Course of the learning rate after the warm-up", Choice(c.schedule)},
      {"warmup", "Steps over which the learning rate rises", IntegerField{&c.warmup, 0, kMany}},
      {"final_rate", "With cosine: the last learning rate as a share of the full one",
       NumberField{&c.final_rate, 0, 1}},
      {"beta1", "AdamW's β₁: decay of the mean gradient", NumberField{&c.beta1, 0, 0.999999}},
      {"beta2", "AdamW's β₂: decay of the mean squared gradient",
       NumberField{&c.beta2, 0, 0.999999}},
      {"epsilon", "AdamW's ε", NumberField{&c.epsilon, 1e-30, 1}},
      {"weight_decay", "AdamW's weight decay, for matrices only",
       NumberField{&c.weight_decay, 0, 1e3}},
      {"clip", "Largest norm of the gradient; 0: no limit", NumberField{&c.clip, 0, 1e9}},
      {"dropout", "Share of elements dropped while training", NumberField{&c.dropout, 0, 0.95}},
      {"redraw", "Steps between draws of ω, each with a jump of the loss; 0: one for the whole run",
       IntegerField{&c.redraw, 0, kMany}},
      {"recompute", "Compute activations again for gradients: less memory, more time",
       FlagField{&c.recompute}},
      {"eval_every", "Steps between evaluations; 0: only the last step",
       IntegerField{&c.eval_every, 0, kMany}},
      {"eval_batches", "Batches per evaluation; 0: the whole split",
       IntegerField{&c.eval_batches, 0, kMany}},
      {"save_every", "Steps between checkpoints; 0: only the last step",
       IntegerField{&c.save_every, 0, kMany}},
      {"patience", "Evaluations without a better loss until the run stops; 0: never",
       IntegerField{&c.patience, 0, kMany}},
      {"seed", "Seed of every random draw", IntegerField{&c.seed, 0, INT64_MAX}},
      {"freeze",
       "Keep the weights of the embedding (and of a tied output) and of the first N layers; 0: of "
       "none",
       IntegerField{&c.freeze, 0, models::kMaxLayers}, /*sparse=*/true},
      {"first_batch",
       "Batches of the data that were read before, by the run that this one starts from",
       IntegerField{&c.first_batch, 0, kMany}, /*sparse=*/true},
      {"class_weights", "How much each case counts; balanced: so that all classes count the same",
       Choice(c.class_weights), /*sparse=*/true},
  };
}

std::vector<Field> DataFields(RunConfig& c) {
  return {{"data", "A file or folder (FASTA, text, pictures) or task:NAME,key=value,…",
           TextField{&c.data, "FILE|task:NAME"}},
          {"task", "What is learned: the next token, masked tokens, a class, or a number",
           Choice(c.task)},
          {"init",
           "Start from the weights of a run or checkpoint; what is not given is as in that run "
           "(other data "
           "is divided anew)",
           TextField{&c.init, "RUN|FILE"}, /*sparse=*/true}};
}

std::vector<Field> FormatFields(DataFormat& c) {
  return {
      {"kind",
       "What the file holds; auto: by its name (.fasta .fa .faa .fna .fas .fsa .ffn .mpfa, .png "
       ".npy, otherwise text)",
       Choice(c.kind)},
      {"alphabet", "Letters of FASTA records", Choice(c.alphabet)},
      {"layout",
       "How FASTA records become sequences: cut at the length, as random pieces, or joined and "
       "read "
       "in windows",
       Choice(c.layout)},
      {"split_by",
       "What divides the data: a hash of each record, its place (the end is held out), blocks (one "
       "in 20 is held out), clusters of records, files of their own, or a hash within each class "
       "(stratified)",
       Choice(c.split_by)},
      {"tokenizer", "A SentencePiece model for text; none: bytes",
       TextField{&c.tokenizer, "M.model"}},
      {"valid_share", "Share of the data for validation", NumberField{&c.valid, 0, 0.9}},
      {"test_share", "Share of the data for the test", NumberField{&c.test, 0, 0.9}},
      {"held_out", "A file with names of FASTA records for the held-out split",
       TextField{&c.held_out, "FILE"}},
      {"clusters",
       "Clusters of FASTA records (mmseqs *_cluster.tsv, CD-HIT .clstr): relatives stay in one "
       "split",
       TextField{&c.clusters, "FILE"}, /*sparse=*/true},
      {"valid_data", "FASTA to validate on, instead of a share of the data",
       TextField{&c.valid_data, "FILE"}, /*sparse=*/true},
      {"test_data", "FASTA to test on, instead of a share of the data",
       TextField{&c.test_data, "FILE"}, /*sparse=*/true},
      {"labels", "A table of labels to learn: names of FASTA records and classes or numbers",
       TextField{&c.labels, "TABLE.tsv"}, /*sparse=*/true},
      {"label_of", "What labels belong to", Choice(c.label_of), /*sparse=*/true}};
}

std::vector<Field> RunFields(RunConfig& c) {
  std::vector<Field> all;
  for (std::vector<Field> part : {DataFields(c), FormatFields(c.format),
                                  models::ConfigFields(c.model), TrainFields(c.training)}) {
    for (Field& field : part) all.push_back(std::move(field));
  }
  return all;
}

}  // namespace train

std::string ToJson(const RunConfig& config) {
  RunConfig copy = config, standard;
  Json json = FieldsToJson(train::DataFields(copy), train::DataFields(standard));
  json["format"] =
      FieldsToJson(train::FormatFields(copy.format), train::FormatFields(standard.format));
  json["model"] = models::ToJson(copy.model);
  json["training"] =
      FieldsToJson(train::TrainFields(copy.training), train::TrainFields(standard.training));
  json["favor"] = FAVOR_VERSION;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void ReadRunConfig(std::string_view text, const std::string& who, RunConfig& config) {
  std::string problem;
  Json json = ParseJson(text, &problem);
  if (!problem.empty()) Throw(ErrorCode::kInvalidOption, Printable(who), "{}", problem);
  if (!json.is_object())
    Throw(ErrorCode::kInvalidOption, Printable(who),
          "not a JSON object, expected one with sections "
          "\"model\" and \"training\"");
  const std::string name = Printable(who);
  if (json.contains("model"))
    FieldsFromJson(name, json["model"], models::ConfigFields(config.model));
  if (json.contains("format"))
    FieldsFromJson(name, json["format"], train::FormatFields(config.format));
  if (json.contains("training"))
    FieldsFromJson(name, json["training"], train::TrainFields(config.training));
  json.erase("favor");  // the version that wrote it
  // The keys at the top are left; the sections are added as names to suggest.
  std::vector<Field> fields = train::DataFields(config);
  std::string ignored;
  for (const char* section : {"format", "model", "training"}) {
    fields.push_back({section, "", TextField{&ignored}});
    if (json.contains(section)) json[section] = "";
  }
  FieldsFromJson(name, json, fields);
}

void UseRecommended(RunConfig& config) {
  RunConfig recommended;
  recommended.model.features.map = "relu";
  recommended.model.positions = Positions::kRotary;
  recommended.model.convolution = 4;
  recommended.training.redraw = 0;
  const ModelConfig& model = config.model;
  if (config.task == Task::kCausal && model.attention == "linear" && model.heads_of.empty())
    recommended.model.decay = Decay::kToken;
  train::CopySettings(recommended, config);
}

}  // namespace favor
