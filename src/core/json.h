// Parsing JSON from outside.
#ifndef FAVOR_CORE_JSON_H_
#define FAVOR_CORE_JSON_H_

#include <nlohmann/json.hpp>  // IWYU pragma: export
#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace favor {

// The result is discarded (is_discarded()) if the text is not JSON, nests deeper than any file of
// favor (code that walks a document may be recursive), has a key twice, or has more than 20,000
// keys in one object. `problem`, if given, says which.
Json ParseJson(std::string_view text, std::string* problem = nullptr);

}  // namespace favor

#endif  // FAVOR_CORE_JSON_H_
