// A config as a list of named fields: written once, it gives the JSON file, its reader with checks
// and the options of a command.
#ifndef FAVOR_CORE_FIELDS_H_
#define FAVOR_CORE_FIELDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/json_fwd.h"
#include "favor/names.h"

namespace favor {

struct IntegerField {
  int64_t* value;
  int64_t least, most;
};
struct EntryField {  // a whole number of a map by name; null: not in the map
  std::map<std::string, int64_t, std::less<>>* entries;
  std::string_view name;
  int64_t least, most;
};
struct NumberField {
  double* value;
  double least, most;
};
struct OptionalNumberField {  // null: a default
  std::optional<double>* value;
  double least, most;
};
struct SharedNumberField {  // in place of one for each head; null: a default
  std::vector<double>* value;
  double least, most;
};
struct NumbersField {  // any number of them; on a command line separated by commas
  std::vector<double>* value;
  double least, most;
};
struct ChoiceField {  // a value of an enum, text by its name
  uint8_t* value;
  std::span<const std::string_view> names;
};
struct NameField {  // an entry of a table that is found by its name
  std::string* value;
  std::span<const std::string_view> names;
};
struct FlagField {
  bool* value;
};
struct TextField {
  std::string* value;
  std::string_view holds = "TEXT";  // as help says it
};

template <NamedEnum Enum>
ChoiceField Choice(Enum& value) {
  static_assert(std::is_same_v<std::underlying_type_t<Enum>, uint8_t>);
  return {reinterpret_cast<uint8_t*>(&value), Names<Enum>()};
}

struct Field {
  std::string_view key;  // "kv_heads"; the option is --kv-heads
  std::string_view help;
  std::variant<IntegerField, EntryField, NumberField, OptionalNumberField, SharedNumberField,
               NumbersField, ChoiceField, NameField, FlagField, TextField>
      value;
  // Written only if it is not the default, so that older versions of favor read the files of those
  // who do not use it.
  bool sparse = false;

  std::string Option() const;  // "--kv-heads"
};

Json FieldsToJson(const std::vector<Field>& fields);
// The same fields for a file: without sparse ones that are as in `standard`, the same list over a
// config of defaults.
Json FieldsToJson(const std::vector<Field>& fields, const std::vector<Field>& standard);

// Sets what `json` holds; other fields stay. Throws kInvalidOption for an unknown key (naming the
// nearest) or a value that the field cannot have; `who` names the file.
void FieldsFromJson(std::string_view who, const Json& json, const std::vector<Field>& fields);

// Sets one field from the text of an option; throws likewise.
void FieldFromText(std::string_view who, const std::string& text, const Field& field);

}  // namespace favor

#endif  // FAVOR_CORE_FIELDS_H_
