// A config as a list of named fields: written once, it gives the JSON file, its reader with checks
// and the options of a command.
#ifndef FAVOR_CORE_FIELDS_H_
#define FAVOR_CORE_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/json_fwd.h"

namespace favor {

struct IntegerField {
  int64_t* value;
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
struct ChoiceField {
  std::string* value;
  std::vector<std::string_view> choices;
};
struct FlagField {
  bool* value;
};
struct TextField {
  std::string* value;
  std::string_view holds = "TEXT";  // as help says it
};

struct Field {
  std::string_view key;  // "kv_heads"; the option is --kv-heads
  std::string_view help;
  std::variant<IntegerField, NumberField, OptionalNumberField, ChoiceField, FlagField, TextField>
      value;

  std::string Option() const;  // "--kv-heads"
};

Json FieldsToJson(const std::vector<Field>& fields);

// Sets what `json` holds; other fields stay. Throws kInvalidOption for an unknown key (naming the
// nearest) or a value that the field cannot have; `who` names the file.
void FieldsFromJson(std::string_view who, const Json& json, const std::vector<Field>& fields);

// Sets one field from the text of an option; throws likewise.
void FieldFromText(std::string_view who, const std::string& text, const Field& field);

}  // namespace favor

#endif  // FAVOR_CORE_FIELDS_H_
