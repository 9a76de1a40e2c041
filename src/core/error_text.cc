#include "core/error_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "core/utf8.h"

namespace favor {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The least number of letters to insert, delete, replace or swap with the next.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const bool same = Lower(a[i]) == Lower(b[j]);
      next[j + 1] = std::min({next[j] + 1, row[j + 1] + 1, row[j] + (same ? 0 : 1)});
      const bool swapped =
          i > 0 && j > 0 && Lower(a[i]) == Lower(b[j - 1]) && Lower(a[i - 1]) == Lower(b[j]);
      if (swapped) next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
    }
    before = row;
    std::swap(row, next);
  }
  return row[b.size()];
}

// Where the first `count` code points of `text` end; bytes that are not UTF-8 count as one each.
size_t CodePointsEnd(std::string_view text, size_t count) {
  size_t end = 0;
  for (; count > 0 && end < text.size(); --count)
    end += std::max<size_t>(1, CodePointBytes(text.substr(end)));
  return end;
}

// A name that begins with the given one ("orth" → "orthogonal") is as near as one typing error.
size_t Distance(std::string_view given, std::string_view name) {
  if (given.size() >= 3 && name.starts_with(given)) return 1;
  return EditDistance(given, name);
}

}  // namespace

std::optional<std::string_view> Nearest(std::string_view given,
                                        std::span<const std::string_view> names) {
  if (names.empty()) return std::nullopt;
  given = given.substr(0, 64);
  const auto nearest = std::ranges::min_element(
      names, {}, [&](std::string_view name) { return Distance(given, name); });
  const size_t distance = Distance(given, *nearest);
  if (distance > std::max<size_t>(1, given.size() / 3)) return std::nullopt;
  return *nearest;
}

std::string Suggest(std::string_view given, std::span<const std::string_view> names) {
  if (names.empty()) return "";
  if (const auto nearest = Nearest(given, names))
    return fmt::format(" (did you mean '{}'?)", *nearest);
  return fmt::format(" (one of: {})", fmt::join(names, ", "));
}

std::string Printable(std::string_view text) {
  constexpr size_t kLimit = 80;
  const std::string_view kept = text.substr(0, CodePointsEnd(text, kLimit));
  std::string safe;
  for (const char c : kept) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      safe += fmt::format("\\x{:02x}", byte);
    } else {
      safe += c;
    }
  }
  if (kept.size() < text.size()) safe += "…";
  return safe;
}

}  // namespace favor
