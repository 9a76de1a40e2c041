#include "core/json.h"

#include <set>
#include <vector>

#include "core/error_text.h"

namespace favor {

Json ParseJson(std::string_view text, std::string* problem) {
  constexpr int kDeepest = 32;
  constexpr size_t kMostKeys = 20'000;  // a new key is compared with all others of its object
  std::string found;
  std::vector<std::set<std::string>> keys;  // keys of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) found = "nested too deeply";
    if (!found.empty()) return false;  // the rest is discarded
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (keys.back().size() == kMostKeys)
        found = fmt::format("an object of more than {} keys", kMostKeys);
      else if (!keys.back().insert(key).second)
        found = fmt::format("the key '{}' occurs twice", Printable(key));
    }
    return found.empty();
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() && found.empty()) found = "not JSON";
  if (problem != nullptr) *problem = found;
  return found.empty() ? json : Json(Json::value_t::discarded);
}

}  // namespace favor
