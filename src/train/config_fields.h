// The fields of a run's config, for JSON files and options.
#ifndef FAVOR_TRAIN_CONFIG_FIELDS_H_
#define FAVOR_TRAIN_CONFIG_FIELDS_H_

#include <vector>

#include "core/fields.h"
#include "favor/train.h"

namespace favor::train {

std::vector<Field> TrainFields(TrainConfig& config);
std::vector<Field> DataFields(RunConfig& config);
std::vector<Field> FormatFields(DataFormat& config);
// All of these fields and those of the model; no two have the same key.
std::vector<Field> RunFields(RunConfig& config);

// Takes back what UseRecommended sets.
void UsePaper(RunConfig& config);

}  // namespace favor::train

#endif  // FAVOR_TRAIN_CONFIG_FIELDS_H_
