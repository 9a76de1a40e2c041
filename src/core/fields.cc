#include "core/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error_text.h"
#include "core/json.h"
#include "core/split.h"

namespace favor {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// Sets a field from JSON; errors begin with `who` and say what was given.
class Reader {
 public:
  Reader(std::string who, std::string given, const Json& json)
      : who_(std::move(who)), given_(std::move(given)), json_(json) {}

  void operator()(const IntegerField& field) const {
    *field.value = Integer(field.least, field.most);
  }
  void operator()(const EntryField& field) const {
    if (json_.is_null()) {
      field.entries->erase(std::string(field.name));
    } else {
      field.entries->insert_or_assign(std::string(field.name), Integer(field.least, field.most));
    }
  }
  void operator()(const NumberField& field) const {
    *field.value = Number(field.least, field.most);
  }
  void operator()(const OptionalNumberField& field) const {
    field.value->reset();
    if (!json_.is_null()) *field.value = Number(field.least, field.most);
  }
  void operator()(const SharedNumberField& field) const {
    field.value->clear();
    if (!json_.is_null()) *field.value = {Number(field.least, field.most)};
  }
  void operator()(const NumbersField& field) const {
    const std::string expected =
        fmt::format("numbers from {} to {}, separated by commas", field.least, field.most);
    if (!json_.is_array()) Fail(expected);
    std::vector<double> numbers;
    for (const Json& number : json_) {
      if (!number.is_number() ||
          !(number.get<double>() >= field.least && number.get<double>() <= field.most))
        Fail(expected);
      numbers.push_back(number.get<double>());
    }
    *field.value = std::move(numbers);
  }
  void operator()(const ChoiceField& field) const {
    *field.value = static_cast<uint8_t>(Place(field.names));
  }
  void operator()(const NameField& field) const { *field.value = field.names[Place(field.names)]; }
  void operator()(const FlagField& field) const {
    if (!json_.is_boolean()) Fail("true or false");
    *field.value = json_.get<bool>();
  }
  void operator()(const TextField& field) const {
    if (!json_.is_string()) Fail("a text");
    *field.value = json_.get<std::string>();
  }

 private:
  // The place of the JSON's name among `names`.
  size_t Place(std::span<const std::string_view> names) const {
    if (!json_.is_string()) Fail("a name");
    return FindName(json_.get_ref<const std::string&>(), names, who_);
  }
  int64_t Integer(int64_t least, int64_t most) const {
    const bool fits = json_.is_number_integer() &&
                      (!json_.is_number_unsigned() || json_.get<uint64_t>() <= INT64_MAX);
    if (!fits || json_.get<int64_t>() < least || json_.get<int64_t>() > most)
      Fail(fmt::format("a whole number from {} to {}", least, most));
    return json_.get<int64_t>();
  }
  double Number(double least, double most) const {
    if (!json_.is_number() || !(json_.get<double>() >= least && json_.get<double>() <= most))
      Fail(fmt::format("a number from {} to {}", least, most));
    return json_.get<double>();
  }
  [[noreturn]] void Fail(const std::string& expected) const {
    Throw(ErrorCode::kInvalidOption, who_, "given {}, expected {}", given_, expected);
  }

  std::string who_, given_;
  const Json& json_;
};

std::string Quoted(std::string_view text) { return fmt::format("'{}'", Printable(text)); }

// Numbers and flags as JSON has them, numbers also as ".5"; what is neither stays a text.
Json ParseOption(const std::string& text, bool number) {
  Json json = ParseJson(text);
  if (!json.is_discarded() && !json.is_structured()) return json;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return number && whole && std::isfinite(value) ? Json(value) : Json(text);
}

// "1,.5" as an array; what is not a number stays a text in it.
Json ParseNumbers(const std::string& text) {
  Json numbers = Json::array();
  for (const std::string_view part : SplitAt(text, ','))
    numbers.push_back(ParseOption(std::string(part), /*number=*/true));
  return numbers;
}

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
    std::visit(Overloaded{[&](const EntryField& f) {
                            const auto found = f.entries->find(f.name);
                            to = found == f.entries->end() ? Json(nullptr) : Json(found->second);
                          },
                          [&](const OptionalNumberField& f) {
                            to = *f.value ? Json(**f.value) : Json(nullptr);
                          },
                          [&](const SharedNumberField& f) {
                            to = f.value->empty() ? Json(nullptr) : Json(f.value->front());
                          },
                          [&](const ChoiceField& f) { to = f.names[*f.value]; },
                          [&](const auto& f) { to = *f.value; }},
               field.value);
  }
  return json;
}

Json FieldsToJson(const std::vector<Field>& fields, const std::vector<Field>& standard) {
  Json json = FieldsToJson(fields);
  const Json usual = FieldsToJson(standard);
  for (const Field& field : fields) {
    const std::string key(field.key);
    if (field.sparse && json[key] == usual[key]) json.erase(key);
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
    const std::string given =
        value.is_string() ? Quoted(value.get_ref<const std::string&>()) : Printable(value.dump());
    std::visit(Reader(fmt::format("{}: {}", who, field.key), given, value), field.value);
  }
}

void FieldFromText(std::string_view who, const std::string& text, const Field& field) {
  const bool number = std::holds_alternative<IntegerField>(field.value) ||
                      std::holds_alternative<EntryField>(field.value) ||
                      std::holds_alternative<NumberField>(field.value) ||
                      std::holds_alternative<OptionalNumberField>(field.value) ||
                      std::holds_alternative<SharedNumberField>(field.value);
  const bool flag = std::holds_alternative<FlagField>(field.value);
  const Json json = std::holds_alternative<NumbersField>(field.value) ? ParseNumbers(text)
                    : number || flag                                  ? ParseOption(text, number)
                                                                      : Json(text);
  std::visit(Reader(std::string(who), Quoted(text), json), field.value);
}

}  // namespace favor
