// Building blocks of error lines: "given X, expected Y", nearest names, throwing in one line.
#ifndef FAVOR_CORE_ERROR_TEXT_H_
#define FAVOR_CORE_ERROR_TEXT_H_

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "favor/error.h"

namespace favor {

// Throw(kInvalidData, "features", "given {} rows, expected at least 1", rows)
template <class... Args>
[[noreturn]] void Throw(ErrorCode code, std::string_view who, fmt::format_string<Args...> format,
                        Args&&... args) {
  throw Error(code, who, fmt::format(format, std::forward<Args>(args)...));
}

// The name that `given` was probably meant to be, by edit distance.
std::optional<std::string_view> Nearest(std::string_view given,
                                        std::span<const std::string_view> names);

// " (did you mean 'positive'?)" for the name nearest to `given` by edit distance, or the list of
// names if none is near.
std::string Suggest(std::string_view given, std::span<const std::string_view> names);

// Text from outside, made safe for one line of a terminal: control bytes as \xNN, cut at 80
// characters.
std::string Printable(std::string_view text);

}  // namespace favor

#endif  // FAVOR_CORE_ERROR_TEXT_H_
