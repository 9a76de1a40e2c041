// Enums with names: text enters and leaves as a name, and what lies between is a value.
//
//   favor::Name(favor::Task::kMasked)              "masked"
//   favor::Names<favor::Task>()                    causal, masked, classify
//   favor::Named<favor::Task>("masked", "--task")  Task::kMasked
#ifndef FAVOR_NAMES_H_
#define FAVOR_NAMES_H_

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

namespace favor {

// The table of an enum: the names of its values 0, 1, …, in their order. It stands next to the enum
// as a specialisation.
template <class Enum>
inline constexpr std::array<std::string_view, 0> kNamesOf = {};

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && !kNamesOf<Enum>.empty();

template <NamedEnum Enum>
constexpr std::string_view Name(Enum value) {
  return kNamesOf<Enum>[static_cast<size_t>(value)];
}

template <NamedEnum Enum>
constexpr std::span<const std::string_view> Names() {
  return kNamesOf<Enum>;
}

// The place of `name` among `names`. Throws kInvalidOption for an unknown name, naming the nearest;
// the error begins with `who`.
size_t FindName(std::string_view name, std::span<const std::string_view> names,
                std::string_view who);

template <NamedEnum Enum>
Enum Named(std::string_view name, std::string_view who) {
  return static_cast<Enum>(FindName(name, Names<Enum>(), who));
}

}  // namespace favor

#endif  // FAVOR_NAMES_H_
