#include "data/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/error_text.h"
#include "core/split.h"
#include "core/utf8.h"
#include "data/text_lines.h"

namespace favor::data {
namespace {

constexpr std::string_view kUnknown = ".";  // no class of a token
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr int64_t kMostClasses = 1'000;

std::optional<float> ParseNumber(std::string_view text) {
  double wide = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wide);
  const auto value = static_cast<float>(wide);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

}  // namespace

void LabelStatistics::Add(std::span<const uint32_t> labels) {
  for (const uint32_t label : labels) {
    if (label == kNoLabel) continue;
    if (!counts.empty()) {
      ++counts[label];
      continue;
    }
    const auto value = static_cast<double>(std::bit_cast<float>(label));
    const double difference = value - mean;
    ++numbers;
    mean += difference / static_cast<double>(numbers);
    squares += difference * (value - mean);
  }
}

LabelScale LabelStatistics::Scale() const {
  if (numbers == 0) return {};
  const double variance = squares / static_cast<double>(numbers);
  return {.mean = mean, .deviation = variance > 0 ? std::sqrt(variance) : 1};
}

Labels::Labels(const std::string& path, const LabelOptions& options)
    : path_(path), options_(options) {
  for (const std::string& name : options.classes) {
    class_numbers_.emplace(name, static_cast<uint32_t>(classes_.size()));
    classes_.push_back(name);
  }
  ForEachLine(path, [&](std::string_view line, int64_t number) { ReadLine(line, number); });
  if (where_.empty()) Throw(ErrorCode::kInvalidData, Printable(path), "holds no labels");
  Finish();
}

void Labels::ReadLine(std::string_view line, int64_t number) {
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) return;
  const size_t tab = line.find('\t');
  const std::string_view name = line.substr(0, tab);
  if (number == 1 && (name == "id" || name.starts_with('#'))) return;
  if (tab == 0 || tab == std::string_view::npos ||
      line.find('\t', tab + 1) != std::string_view::npos) {
    Throw(ErrorCode::kInvalidData, Printable(path_),
          "line {}: given '{}', expected a name and a label with a tab between them", number,
          Printable(line));
  }
  const std::string_view label = line.substr(tab + 1);
  const size_t begin = labels_.size();
  if (options_.numbers && options_.per_token) {
    for (const std::string_view text : SplitAt(label, ',')) AddNumber(text, number);
  } else if (options_.numbers) {
    AddNumber(label, number);
    if (labels_.back() == kNoLabel)
      Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: given no number", number);
  } else if (options_.per_token) {
    for (size_t i = 0; i < label.size(); ++i) AddClass(label.substr(i, 1), number);
  } else {
    if (label.empty())
      Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: given no class", number);
    AddClass(label, number);
  }
  const Place place{begin, labels_.size() - begin, number};
  const auto [found, fresh] = where_.emplace(std::string(name), place);
  if (fresh) return;
  const auto of = [&](const Place& at) { return std::span(labels_).subspan(at.begin, at.count); };
  if (!std::ranges::equal(of(found->second), of(place))) {
    Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: '{}' has another label in line {}",
          number, Printable(name), found->second.line);
  }
  labels_.resize(begin);
}

void Labels::AddClass(std::string_view name, int64_t line) {
  if (options_.per_token && name == kUnknown) return labels_.push_back(kNoLabel);
  const auto [found, fresh] =
      class_numbers_.emplace(std::string(name), static_cast<uint32_t>(classes_.size()));
  if (fresh && !options_.classes.empty()) {
    Throw(ErrorCode::kInvalidData, Printable(path_),
          "line {}: given the class '{}', expected one of: {}", line, Printable(name),
          Printable(fmt::format("{}", fmt::join(options_.classes, ", "))));
  }
  if (fresh && Utf8Prefix(name) != name.size()) {
    Throw(ErrorCode::kInvalidData, Printable(path_),
          "line {}: given '{}', expected a class in UTF-8", line, Printable(name));
  }
  if (fresh) classes_.emplace_back(name);
  if (std::ssize(classes_) > kMostClasses) {
    Throw(ErrorCode::kInvalidData, Printable(path_),
          "line {}: more than {} classes, expected fewer (numbers are learned with the task "
          "regress)",
          line, kMostClasses);
  }
  labels_.push_back(found->second);
}

void Labels::AddNumber(std::string_view text, int64_t line) {
  if (text.empty()) return labels_.push_back(kNoLabel);
  const auto value = ParseNumber(text);
  if (!value) {
    Throw(ErrorCode::kInvalidData, Printable(path_), "line {}: given '{}', expected a number", line,
          Printable(text));
  }
  labels_.push_back(std::bit_cast<uint32_t>(*value));
}

// Numbers classes by their names instead of by their first line.
void Labels::Finish() {
  class_numbers_.clear();
  if (options_.numbers || !options_.classes.empty()) return;
  if (classes_.size() < 2) {
    Throw(ErrorCode::kInvalidData, Printable(path_), "holds one class, '{}', expected two or more",
          classes_.empty() ? "" : Printable(classes_.front()));
  }
  std::vector<uint32_t> order(classes_.size()), place(classes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](uint32_t i) -> const std::string& { return classes_[i]; });
  std::vector<std::string> sorted;
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted.push_back(classes_[order[i]]);
  }
  for (uint32_t& label : labels_) {
    if (label != kNoLabel) label = place[label];
  }
  classes_ = std::move(sorted);
}

std::optional<std::span<const uint32_t>> Labels::Of(const std::string& name) const {
  const auto found = where_.find(name);
  if (found == where_.end()) {
    const std::vector<std::string_view> parts = SplitAt(name, '|');
    return parts.size() == 3 ? Of(std::string(parts[1])) : std::nullopt;
  }
  return std::span(labels_).subspan(found->second.begin, found->second.count);
}

}  // namespace favor::data
