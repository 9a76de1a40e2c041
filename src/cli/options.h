// The options of one command: declared with the variable they set, checked as they are read, shown
// by its help. Errors say what was given and what was expected. The parser of the command line is
// hidden: only options.cc and command.cc include its headers, which are slow to compile.
#ifndef FAVOR_CLI_OPTIONS_H_
#define FAVOR_CLI_OPTIONS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "favor/names.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace favor::cli {

// One option; its setters refine it where it is declared.
class Option {
 public:
  Option& Required() {
    required_ = true;
    return *this;
  }
  // What help shows as the default, in place of the variable's value.
  Option& Default(std::string shown) {
    shown_default_ = std::move(shown);
    return *this;
  }
  // What help shows after the name: N, FILE, a|b|c.
  Option& Placeholder(std::string shown) {
    placeholder_ = std::move(shown);
    return *this;
  }

  bool Given() const { return Times() > 0; }
  int64_t Times() const;  // how often it was given; for a list, the number of values
  bool list() const { return list_; }
  bool required() const { return required_; }
  bool positional() const { return !names_[0].starts_with('-'); }
  const std::string& name() const { return names_[0]; }  // "--features"
  const std::vector<std::string>& names() const { return names_; }
  const std::string& heading() const { return heading_; }
  const std::string& placeholder() const { return placeholder_; }
  std::string Help() const;  // what it does, its default, whether it must be given

 private:
  friend class Options;

  CLI::Option* parsed_ = nullptr;
  std::vector<std::string> names_;
  std::string heading_, placeholder_, help_, shown_default_;
  bool required_ = false, list_ = false;
};

constexpr const char* kUsualHeading = "Options";  // heading in help unless another is set

struct Range {
  int64_t least, most;
};

// What help shows after an option that takes one of several names: all of them if they are few.
std::string ChoicePlaceholder(std::span<const std::string_view> names);

class Options {
 public:
  using Store = std::function<void(const std::string& text)>;

  // The options of the command or part `who`, such as "state append".
  Options(CLI::App& app, std::string who);
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // `name` may hold several names, separated by commas; errors use the first.
  Option& Flag(const std::string& name, bool& value, const std::string& help);
  // A whole number within `range`.
  Option& Integer(const std::string& name, Range range, int64_t& value, const std::string& help);
  // A finite number.
  Option& Number(const std::string& name, double& value, const std::string& help);
  Option& Number(const std::string& name, std::optional<double>& value, const std::string& help);
  // A value by its name; an unknown name is answered with the nearest.
  template <NamedEnum Enum>
  Option& Choice(const std::string& name, Enum& value, const std::string& help) {
    return Choice(name, Names<Enum>(), value, help);
  }
  template <NamedEnum Enum>
  Option& Choice(const std::string& name, std::optional<Enum>& value, const std::string& help) {
    return Choice(
        name, Names<Enum>(), [&value](size_t place) { value = static_cast<Enum>(place); }, help);
  }
  // One of the first values of an enum, those of `names`.
  template <NamedEnum Enum>
  Option& Choice(const std::string& name, std::span<const std::string_view> names, Enum& value,
                 const std::string& help) {
    return Choice(
               name, names, [&value](size_t place) { value = static_cast<Enum>(place); }, help)
        .Default(std::string(Name(value)));
  }
  // One of `names`, kept as it is.
  Option& Choice(const std::string& name, std::span<const std::string_view> names,
                 std::string& value, const std::string& help);
  // Lists of these, separated by commas. A list that is given again adds to the first; every other
  // option may be given only once.
  Option& Integers(const std::string& name, Range range, std::vector<int64_t>& values,
                   const std::string& help);
  Option& Choices(const std::string& name, std::span<const std::string_view> names,
                  std::vector<std::string>& values, const std::string& help);
  // A file or folder; an empty text (an unset variable of a script) is refused.
  Option& Path(const std::string& name, const std::string& placeholder, std::string& path,
               const std::string& help);
  Option& Text(const std::string& name, std::optional<std::string>& text, const std::string& help);

  // The general forms: `store` gets the text of an option, or whether it was `--name` or
  // `--no-name`.
  Option& Value(const std::string& name, const Store& store, const std::string& help);
  // One of `names`, by its place among them.
  Option& Choice(const std::string& name, std::span<const std::string_view> names,
                 std::function<void(size_t)> store, const std::string& help);
  Option& Switch(const std::string& name, std::function<void(bool)> store, const std::string& help);
  // An option whose value may be left out: then the text is empty.
  Option& OptionalValue(const std::string& name, const Store& store, const std::string& help);
  // Positional words; from `least` to `most` of them.
  Option& Words(const std::string& name, Range count, std::vector<std::string>& words,
                const std::string& help);

  // Sets the heading in help of the options declared from here on.
  void Heading(std::string heading) { heading_ = std::move(heading); }
  const std::string& heading() const { return heading_; }

  // "state append: --scale", the beginning of an error.
  std::string Who(const std::string& name) const { return who_ + ": " + name; }
  const std::deque<Option>& all() const { return options_; }

 private:
  Option& Add(const std::string& name, CLI::Option* parsed, const std::string& help);
  Option& List(const std::string& name,
               const std::function<void(const std::vector<std::string>&)>& store,
               const std::string& help);

  CLI::App& app_;
  std::string who_, heading_ = kUsualHeading;
  std::deque<Option> options_;  // a deque, because references to its elements stay valid
};

}  // namespace favor::cli

#endif  // FAVOR_CLI_OPTIONS_H_
