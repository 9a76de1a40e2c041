#include "cli/field_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"

namespace favor::cli {
namespace {

// What help shows after the name of an option.
std::string Placeholder(const Field& field) {
  if (const auto* choice = std::get_if<ChoiceField>(&field.value))
    return ChoicePlaceholder(choice->names);
  if (const auto* name = std::get_if<NameField>(&field.value))
    return ChoicePlaceholder(name->names);
  if (const auto* text = std::get_if<TextField>(&field.value)) return std::string(text->holds);
  if (std::holds_alternative<NumbersField>(field.value)) return "X,X,…";
  return std::holds_alternative<IntegerField>(field.value) ||
                 std::holds_alternative<EntryField>(field.value)
             ? "N"
             : "X";
}

}  // namespace

void FieldOptions::Add(Options& options, const std::string& heading,
                       const std::vector<Field>& fields,
                       std::span<const std::string_view> of_preset) {
  options_ = &options;
  const std::string before = options.heading();
  options.Heading(heading);
  const auto defaults = FieldsToJson(fields);
  for (const Field& field : fields) {
    const std::string key(field.key), help(field.help);
    const auto& shown = defaults[key];
    if (std::holds_alternative<FlagField>(field.value)) {
      options
          .Switch(
              field.Option(), [this, key](bool on) { given_[key] = on ? "true" : "false"; }, help)
          .Default(shown.get<bool>() ? "on" : "off");
      continue;
    }
    options
        .Value(
            field.Option(), [this, key](const std::string& text) { given_[key] = text; }, help)
        .Placeholder(Placeholder(field))
        .Default(std::ranges::find(of_preset, field.key) != of_preset.end()
                     ? fmt::format("the preset's; {} of tiny", shown.dump())
                 : shown.is_string()                ? shown.get<std::string>()
                 : shown.is_null() || shown.empty() ? ""
                                                    : shown.dump());
  }
  options.Heading(before);
}

void FieldOptions::Apply(const std::vector<Field>& fields) const {
  for (const Field& field : fields) {
    if (const auto found = given_.find(field.key); found != given_.end())
      FieldFromText(options_->Who(field.Option()), found->second, field);
  }
}

}  // namespace favor::cli
