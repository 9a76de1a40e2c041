// The fields of feature options, for JSON files and options of commands.
#ifndef FAVOR_FEATURES_OPTION_FIELDS_H_
#define FAVOR_FEATURES_OPTION_FIELDS_H_

#include <span>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "favor/features.h"

namespace favor::features {

std::vector<Field> OptionFields(FeatureOptions& options);

std::span<const std::string_view> MapNames();
std::span<const std::string_view> ProjectionNames();

}  // namespace favor::features

#endif  // FAVOR_FEATURES_OPTION_FIELDS_H_
