// A forward declaration of Json, for headers: its own header is slow to compile.
#ifndef FAVOR_CORE_JSON_FWD_H_
#define FAVOR_CORE_JSON_FWD_H_

#include <nlohmann/json_fwd.hpp>

namespace favor {

using Json = nlohmann::ordered_json;  // keys stay in the order they were written in

}  // namespace favor

#endif  // FAVOR_CORE_JSON_FWD_H_
