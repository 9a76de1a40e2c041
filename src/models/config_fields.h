// The fields of a model's config, for JSON files and options.
#ifndef FAVOR_MODELS_CONFIG_FIELDS_H_
#define FAVOR_MODELS_CONFIG_FIELDS_H_

#include <vector>

#include "core/fields.h"
#include "favor/model.h"

namespace favor::models {

// The fields that say how a model is built.
std::vector<Field> ChosenFields(ModelConfig& config);
// The same and those that follow from the data: causal, vocab, classes.
std::vector<Field> ConfigFields(ModelConfig& config);

// The config as files hold it.
Json ToJson(ModelConfig config);

}  // namespace favor::models

#endif  // FAVOR_MODELS_CONFIG_FIELDS_H_
