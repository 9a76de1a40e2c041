#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error_text.h"

namespace favor::cli {
namespace {

// Parses the whole of `text` as a number.
template <class T>
bool Parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int64_t ParseInteger(const std::string& who, const std::string& text, Range range) {
  int64_t number = 0;
  if (!Parse(text, number) || number < range.least || number > range.most) {
    constexpr int64_t kNobodyWants = int64_t{1}
                                     << 30;  // above it, errors do not name the end of the range
    Throw(ErrorCode::kInvalidOption, who, "given '{}', expected a whole number{}", Printable(text),
          range.most < kNobodyWants ? fmt::format(" from {} to {}", range.least, range.most)
                                    : fmt::format(", {} or more", range.least));
  }
  return number;
}

double ParseNumber(const std::string& who, const std::string& text) {
  double number = 0;
  if (!Parse(text, number) || !std::isfinite(number)) {
    Throw(ErrorCode::kInvalidOption, who, "given '{}', expected a number", Printable(text));
  }
  return number;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

std::string ChoicePlaceholder(std::span<const std::string_view> names) {
  constexpr size_t kFew = 5;
  return names.size() <= kFew ? fmt::format("{}", fmt::join(names, "|")) : "NAME";
}

int64_t Option::Times() const { return static_cast<int64_t>(parsed_->count()); }

std::string Option::Help() const {
  if (required_) return help_ + " (required)";
  return shown_default_.empty() ? help_ : fmt::format("{} (default: {})", help_, shown_default_);
}

Options::Options(CLI::App& app, std::string who) : app_(app), who_(std::move(who)) {}

Option& Options::Add(const std::string& name, CLI::Option* parsed, const std::string& help) {
  Option& option = options_.emplace_back();
  option.parsed_ = parsed;
  option.names_ = Split(name);
  option.heading_ = heading_;
  option.help_ = help;
  // An option that is given twice is refused after parsing, whatever its type: see CheckComplete.
  option.list_ = parsed->get_expected_max() > 1;
  if (!option.list_ && !option.positional()) parsed->take_last();
  return option;
}

Option& Options::Flag(const std::string& name, bool& value, const std::string& help) {
  return Add(name, app_.add_flag(name, value), help);
}

Option& Options::Switch(const std::string& name, std::function<void(bool)> store,
                        const std::string& help) {
  const std::string no = "--no-" + name.substr(2);
  CLI::Option* parsed = app_.add_flag_function(
      name + ",!" + no, [store = std::move(store)](int64_t count) { store(count > 0); });
  return Add(name + "," + no, parsed, help);
}

Option& Options::Value(const std::string& name, const Store& store, const std::string& help) {
  return Add(name, app_.add_option_function<std::string>(name, store), help);
}

Option& Options::OptionalValue(const std::string& name, const Store& store,
                               const std::string& help) {
  Option& option = Value(name, store, help);
  option.parsed_->expected(0, 1);
  return option;
}

Option& Options::Words(const std::string& name, Range count, std::vector<std::string>& words,
                       const std::string& help) {
  CLI::Option* parsed = app_.add_option(name, words);
  parsed->expected(static_cast<int>(count.least), static_cast<int>(count.most));
  Option& option = Add(name, parsed, help);
  return count.least > 0 ? option.Required() : option;
}

Option& Options::Integer(const std::string& name, Range range, int64_t& value,
                         const std::string& help) {
  return Value(
             name,
             [who = Who(Split(name)[0]), range, &value](const std::string& text) {
               value = ParseInteger(who, text, range);
             },
             help)
      .Placeholder("N")
      .Default(std::to_string(value));
}

Option& Options::Number(const std::string& name, double& value, const std::string& help) {
  return Value(
             name,
             [who = Who(name), &value](const std::string& text) { value = ParseNumber(who, text); },
             help)
      .Placeholder("X")
      .Default(fmt::format("{}", value));
}

Option& Options::Number(const std::string& name, std::optional<double>& value,
                        const std::string& help) {
  return Value(
             name,
             [who = Who(name), &value](const std::string& text) { value = ParseNumber(who, text); },
             help)
      .Placeholder("X");
}

Option& Options::Choice(const std::string& name, std::span<const std::string_view> names,
                        std::function<void(size_t)> store, const std::string& help) {
  return Value(
             name,
             [who = Who(name), own = std::vector(names.begin(), names.end()),
              store = std::move(store)](const std::string& text) {
               store(FindName(text, own, who));
             },
             help)
      .Placeholder(ChoicePlaceholder(names));
}

Option& Options::Choice(const std::string& name, std::span<const std::string_view> names,
                        std::string& value, const std::string& help) {
  return Choice(
             name, names,
             [own = std::vector(names.begin(), names.end()), &value](size_t place) {
               value = own[place];
             },
             help)
      .Default(value);
}

Option& Options::List(const std::string& name,
                      const std::function<void(const std::vector<std::string>&)>& store,
                      const std::string& help) {
  CLI::Option* parsed = app_.add_option_function<std::vector<std::string>>(name, store);
  parsed->delimiter(',');
  return Add(name, parsed, help);
}

Option& Options::Integers(const std::string& name, Range range, std::vector<int64_t>& values,
                          const std::string& help) {
  return List(
             name,
             [who = Who(Split(name)[0]), range, &values](const std::vector<std::string>& texts) {
               values.clear();
               for (const std::string& text : texts)
                 values.push_back(ParseInteger(who, text, range));
             },
             help)
      .Placeholder("N,N,...")
      .Default(fmt::format("{}", fmt::join(values, ",")));
}

Option& Options::Choices(const std::string& name, std::span<const std::string_view> names,
                         std::vector<std::string>& values, const std::string& help) {
  return List(
             name,
             [who = Who(Split(name)[0]), own = std::vector(names.begin(), names.end()),
              &values](const std::vector<std::string>& texts) {
               for (const std::string& text : texts) FindName(text, own, who);
               values = texts;
             },
             help)
      .Placeholder("NAME,...")
      .Default(fmt::format("{}", fmt::join(values, ",")));
}

Option& Options::Path(const std::string& name, const std::string& placeholder, std::string& path,
                      const std::string& help) {
  return Value(
             name,
             [who = Who(name), &path](const std::string& text) {
               if (text.empty())
                 Throw(ErrorCode::kInvalidOption, who,
                       "given an empty path, expected a file or folder");
               path = text;
             },
             help)
      .Placeholder(placeholder);
}

Option& Options::Text(const std::string& name, std::optional<std::string>& text,
                      const std::string& help) {
  return Value(
             name, [&text](const std::string& given) { text = given; }, help)
      .Placeholder("TEXT");
}

}  // namespace favor::cli
