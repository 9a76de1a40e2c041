// The fields of a model's config, for JSON files and options.
#ifndef FAVOR_MODELS_CONFIG_FIELDS_H_
#define FAVOR_MODELS_CONFIG_FIELDS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"
#include "favor/model.h"

namespace favor::models {

// A config with those of its options that are no plain fields beside it; Store brings them back.
class ConfigFields {
 public:
  explicit ConfigFields(ModelConfig& config);

  // Those that say how a model is built, and those that follow from the data: causal, vocab,
  // classes.
  std::vector<Field> Chosen();
  std::vector<Field> Derived();
  std::vector<Field> All();
  void Store();

 private:
  ModelConfig& config_;
  std::string omega_norm_;
  std::optional<double> oprf_a_;
};

// All fields of a config: with ConfigFields, what files say of a model.
Json ToJson(ModelConfig config);

}  // namespace favor::models

#endif  // FAVOR_MODELS_CONFIG_FIELDS_H_
