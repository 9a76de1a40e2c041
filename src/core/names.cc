#include "favor/names.h"

#include <algorithm>

#include "core/error_text.h"

namespace favor {

size_t FindName(std::string_view name, std::span<const std::string_view> names,
                std::string_view who) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    Throw(ErrorCode::kInvalidOption, who, "unknown name '{}'{}", Printable(name),
          Suggest(name, names));
  }
  return static_cast<size_t>(found - names.begin());
}

}  // namespace favor
