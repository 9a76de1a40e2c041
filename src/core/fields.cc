#include "core/fields.h"

#include <algorithm>

#include "core/error_text.h"
#include "core/json.h"

namespace favor {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

class Reader {
 public:
  Reader(std::string_view who, std::string_view key, const Json& json)
      : who_(who), key_(key), json_(json) {}

  void operator()(const IntegerField& field) const {
    const bool fits = json_.is_number_integer() &&
                      (!json_.is_number_unsigned() || json_.get<uint64_t>() <= INT64_MAX);
    if (!fits || json_.get<int64_t>() < field.least || json_.get<int64_t>() > field.most)
      Fail(fmt::format("a whole number from {} to {}", field.least, field.most));
    *field.value = json_.get<int64_t>();
  }
  void operator()(const NumberField& field) const {
    *field.value = Number(field.least, field.most);
  }
  void operator()(const OptionalNumberField& field) const {
    if (json_.is_null()) {
      field.value->reset();
    } else {
      *field.value = Number(field.least, field.most);
    }
  }
  void operator()(const ChoiceField& field) const {
    if (!json_.is_string()) Fail("a name");
    const auto& name = json_.get_ref<const std::string&>();
    if (std::ranges::find(field.choices, name) == field.choices.end()) {
      Throw(ErrorCode::kInvalidOption, who_, "{}unknown name '{}'{}", Key(), Printable(name),
            Suggest(name, field.choices));
    }
    *field.value = name;
  }
  void operator()(const FlagField& field) const {
    if (!json_.is_boolean()) Fail("true or false");
    *field.value = json_.get<bool>();
  }
  void operator()(const TextField& field) const {
    if (!json_.is_string()) Fail("a text");
    *field.value = json_.get<std::string>();
  }

 private:
  // An option names itself before the colon.
  std::string Key() const { return key_.empty() ? "" : fmt::format("{}: ", key_); }

  double Number(double least, double most) const {
    if (!json_.is_number() || !(json_.get<double>() >= least && json_.get<double>() <= most))
      Fail(fmt::format("a number from {} to {}", least, most));
    return json_.get<double>();
  }
  [[noreturn]] void Fail(const std::string& expected) const {
    const std::string given =
        json_.is_string() ? fmt::format("'{}'", Printable(json_.get_ref<const std::string&>()))
                          : Printable(json_.dump());
    Throw(ErrorCode::kInvalidOption, who_, "{}given {}, expected {}", Key(), given, expected);
  }

  std::string_view who_, key_;
  const Json& json_;
};

}  // namespace

std::string Field::Option() const {
  std::string option = "--" + std::string(key);
  std::ranges::replace(option, '_', '-');
  return option;
}

Json FieldsToJson(const std::vector<Field>& fields) {
  Json json = Json::object();
  for (const Field& field : fields) {
    Json& to = json[std::string(field.key)];
    std::visit(Overloaded{[&](const OptionalNumberField& f) {
                            to = *f.value ? Json(**f.value) : Json(nullptr);
                          },
                          [&](const auto& f) { to = *f.value; }},
               field.value);
  }
  return json;
}

void FieldsFromJson(std::string_view who, const Json& json, const std::vector<Field>& fields) {
  if (!json.is_object())
    Throw(ErrorCode::kInvalidOption, who, "given {}, expected an object of keys and values",
          Printable(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
  std::vector<std::string_view> keys;
  keys.reserve(fields.size());
  for (const Field& field : fields) keys.push_back(field.key);
  for (const auto& [key, value] : json.items()) {
    const auto found = std::ranges::find(keys, key);
    if (found == keys.end()) {
      Throw(ErrorCode::kInvalidOption, who, "unknown key '{}'{}", Printable(key),
            Suggest(key, keys));
    }
    const Field& field = fields[static_cast<size_t>(found - keys.begin())];
    std::visit(Reader(who, field.key, value), field.value);
  }
}

void FieldFromText(std::string_view who, const std::string& text, const Field& field) {
  const bool number = std::holds_alternative<IntegerField>(field.value) ||
                      std::holds_alternative<NumberField>(field.value) ||
                      std::holds_alternative<OptionalNumberField>(field.value);
  Json json = text;
  if (number || std::holds_alternative<FlagField>(field.value)) {
    // Numbers and flags are written as in JSON; what is none stays a text and is refused.
    Json parsed = ParseJson(text);
    if (!parsed.is_discarded() && !parsed.is_structured()) json = std::move(parsed);
  }
  std::visit(Reader(who, "", json), field.value);
}

}  // namespace favor
