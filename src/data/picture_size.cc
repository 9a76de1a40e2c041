#include "data/picture_size.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

namespace favor::data {

std::string PictureSize::Text() const {
  return fmt::format("{} × {} × {}", height, width, channels);
}

std::optional<PictureSize> PictureSize::Parse(std::string_view text, int64_t pixels) {
  constexpr std::string_view kTimes = " × ";
  std::vector<int64_t> sizes;
  for (;;) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 1) return std::nullopt;
    sizes.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) break;
    if (!text.starts_with(kTimes)) return std::nullopt;
    text.remove_prefix(kTimes.size());
  }
  // By division, since the product of three sizes might overflow.
  if (sizes.size() != 3 || (sizes[2] != 1 && sizes[2] != 3) || pixels % sizes[2] != 0 ||
      pixels / sizes[2] % sizes[1] != 0 || pixels / sizes[2] / sizes[1] != sizes[0])
    return std::nullopt;
  return PictureSize{sizes[0], sizes[1], sizes[2]};
}

}  // namespace favor::data
