// Text cut at a separator.
#ifndef FAVOR_CORE_SPLIT_H_
#define FAVOR_CORE_SPLIT_H_

#include <string_view>
#include <vector>

namespace favor {

// The parts between separators, empty ones too: one more than there are separators.
inline std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace favor

#endif  // FAVOR_CORE_SPLIT_H_
