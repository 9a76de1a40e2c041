// Notices to the user, on stderr: nothing depends on whether they can be written.
#ifndef FAVOR_CORE_NOTICE_H_
#define FAVOR_CORE_NOTICE_H_

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace favor {

// Writes the text. A stderr that is closed or full is not an error: it must not end the work.
void Notice(std::string_view text);

// "favor: warning: who: …" on a line of its own.
template <class... Args>
void Warn(std::string_view who, fmt::format_string<Args...> format, Args&&... args) {
  Notice(fmt::format("favor: warning: {}: {}\n", who,
                     fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace favor

#endif  // FAVOR_CORE_NOTICE_H_
