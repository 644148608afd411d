#pragma once

// What a layer was made with, as plain values of Python, for pickle.
#include <optional>
#include <type_traits>

#include "mica/ops/conv/options.h"
#include "python/src/bindings.h"

namespace mica::python {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsPadding : std::false_type {};
template <class Size>
struct IsPadding<Padding<Size>> : std::true_type {};

struct IgnoreField {
  template <class T>
  void operator()(const char*, T&&) const {}
};
template <class T>
concept HasFields = requires(T& t) { T::fields(t, IgnoreField()); };

template <class T>
nb::object option_to_python(const T& value) {
  if constexpr (HasFields<T>) {
    nb::dict fields;
    T::fields(value,
              [&](const char* name, const auto& field) { fields[name] = option_to_python(field); });
    return fields;
  } else if constexpr (IsOptional<T>::value) {
    return value ? option_to_python(*value) : nb::none();
  } else if constexpr (IsPadding<T>::value) {
    return nb::make_tuple(nb::cast(value.before), nb::cast(value.after), value.same_size);
  } else if constexpr (std::is_enum_v<T>) {
    return nb::cast(static_cast<int64_t>(value));
  } else {
    return nb::cast(value);
  }
}

template <class T>
void option_from_python(nb::handle object, T& value) {
  if constexpr (HasFields<T>) {
    T::fields(value,
              [&](const char* name, auto& field) { option_from_python(object[name], field); });
  } else if constexpr (IsOptional<T>::value) {
    value.reset();
    if (!object.is_none()) option_from_python(object, value.emplace());
  } else if constexpr (IsPadding<T>::value) {
    option_from_python(object[0], value.before);
    option_from_python(object[1], value.after);
    value.same_size = nb::cast<bool>(object[2]);
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(nb::cast<int64_t>(object));
  } else {
    value = nb::cast<T>(object);
  }
}

/// How a class of modules is taken apart and made again.
struct Remake {
  nb::object (*options)(nb::handle self) = nullptr;               ///< null where it cannot be
  void (*make)(nb::handle object, nb::handle options) = nullptr;  ///< in a new object's memory
};
/// For objects of a class that is bound, and of those that Python derives from it.
void set_remake(nb::handle type, Remake remake);

}  // namespace mica::python
