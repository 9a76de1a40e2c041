// JSON from outside.
#ifndef FAVOR_CORE_JSON_H_
#define FAVOR_CORE_JSON_H_

#include <nlohmann/json.hpp>  // IWYU pragma: export
#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace favor {

// Discarded (is_discarded()) where the text is no JSON, nests deeper than any file of favor (what
// walks a document may be recursive), or has a key twice or more than 20,000 keys in one
// object. `problem`, where given,
// says which.
Json ParseJson(std::string_view text, std::string* problem = nullptr);

}  // namespace favor

#endif  // FAVOR_CORE_JSON_H_
