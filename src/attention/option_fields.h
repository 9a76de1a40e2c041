// The options that some kinds of attention have, as fields for JSON files and options of commands.
#ifndef FAVOR_ATTENTION_OPTION_FIELDS_H_
#define FAVOR_ATTENTION_OPTION_FIELDS_H_

#include <vector>

#include "core/fields.h"
#include "favor/attention.h"

namespace favor::attention {

// One field per name, whatever the number of kinds that have it; files hold those that are set.
std::vector<Field> OptionFields(KindOptions& options);

}  // namespace favor::attention

#endif  // FAVOR_ATTENTION_OPTION_FIELDS_H_
