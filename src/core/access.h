// Access to the inside of public objects, for code of the library: their headers name this struct a
// friend and show nothing else.
#ifndef FAVOR_CORE_ACCESS_H_
#define FAVOR_CORE_ACCESS_H_

#include <utility>

namespace favor::internal {

struct Access {
  template <class Object>
  static auto& Impl(Object& object) {
    return *object.impl_;
  }
  template <class Object>
  static bool IsEmpty(const Object& object) {  // true if moved from
    return object.impl_ == nullptr;
  }
  template <class Object, class... Arguments>
  static Object Make(Arguments&&... arguments) {
    return Object(std::forward<Arguments>(arguments)...);
  }
};

// What `object` holds: a Context's Runtime, a FeaturePlan's drawn maps, a Model's Network.
template <class Object>
auto& Inside(Object& object) {
  return Access::Impl(object);
}

}  // namespace favor::internal

#endif  // FAVOR_CORE_ACCESS_H_
