#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include "mica/core/values.h"

// Values as C++ types and back: a Tensor, Values, an optional, tuple, pair, array or vector of
// such, or an aggregate with `fields()`, which are a dict's entries:
//
//     struct Gaussian {
//       Tensor mean, log_var;
//       template <class Self, class F>
//       static void fields(Self& self, F&& f) { f("mean", self.mean); f("log_var", self.log_var); }
//     };
namespace mica {

/// Has a `fields(self, f)` visitor that calls f(name, field) for each.
template <class T>
concept HasFields = requires(T& t) { T::fields(t, [](const char*, auto&) {}); };
template <class T>
concept TupleLike = !std::same_as<T, Values> && requires { std::tuple_size<T>::value; };

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
constexpr void refuse_as_values() {
  static_assert(
      !std::same_as<T, T>,
      "mica passes on Tensor, Values, tuples, pairs, arrays, vectors and optionals of them, and "
      "structs "
      "with `template <class Self, class F> static void fields(Self& self, F&& f) { f(\"name\", "
      "self.name); }`, which calls f for each member");
}

template <class Given>
Values to_values(Given&& value) {
  using T = std::remove_cvref_t<Given>;
  if constexpr (std::convertible_to<Given&&, Values>) {
    return std::forward<Given>(value);
  } else if constexpr (IsOptional<T>::value) {
    return value ? to_values(*value) : Values();
  } else if constexpr (HasFields<T>) {
    std::vector<Values::Entry> entries;
    T::fields(value, [&](const char* name, const auto& field) {
      entries.emplace_back(name, to_values(field));
    });
    return Values::dict(std::move(entries));
  } else if constexpr (TupleLike<T>) {
    return std::apply([](const auto&... entries) { return Values::list({to_values(entries)...}); },
                      value);
  } else if constexpr (IsVector<T>::value) {
    std::vector<Values> entries;
    for (const auto& entry : value) entries.push_back(to_values(entry));
    return Values::list(std::move(entries));
  } else {
    refuse_as_values<T>();
    return {};
  }
}

template <class T>
T from_values(const Values& values, const ValuesPath& path);

/// Raises "path: expected …, got …" unless it is as expected.
void check_values(bool as_expected, const ValuesPath& path, const std::string& expected,
                  const Values& values);

void check_list_of(const Values& values, const ValuesPath& path, size_t n);

template <class Tuple, size_t... i>
Tuple tuple_from_values(const Values& values, const ValuesPath& path, std::index_sequence<i...>) {
  check_list_of(values, path, sizeof...(i));
  return Tuple{from_values<std::tuple_element_t<i, Tuple>>(values.entries()[i],
                                                           ValuesPath(path, values, i))...};
}

/// The Values as a T. Raises with the path of the first that is something else. An undefined Tensor
/// stands for nothing.
template <class T>
T from_values(const Values& values, const ValuesPath& path) {
  if constexpr (std::same_as<T, Values>) {
    return values;
  } else if constexpr (std::same_as<T, Tensor>) {
    if (values.is_nothing()) return {};
    check_values(values.is_tensor(), path, "a tensor", values);
    return values.tensor();
  } else if constexpr (IsOptional<T>::value) {
    if (values.is_nothing()) return {};
    return from_values<typename T::value_type>(values, path);
  } else if constexpr (HasFields<T>) {
    check_values(values.is_dict(), path, "a dict", values);
    T made = {};
    int64_t fields = 0;
    T::fields(made, [&]<class Field>(const char* name, Field& field) {
      const Values* found = values.find(name);
      if (!found) check_values(false, path, std::string("an entry \"") + name + "\"", values);
      field = from_values<Field>(
          *found, ValuesPath(path, values, static_cast<size_t>(found - values.entries().data())));
      ++fields;
    });
    if (fields != values.size())
      check_values(false, path, std::to_string(fields) + " entries", values);
    return made;
  } else if constexpr (TupleLike<T>) {
    return tuple_from_values<T>(values, path, std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (IsVector<T>::value) {
    check_values(values.is_list(), path, "a list", values);
    T made;
    for (size_t i = 0; i < values.entries().size(); ++i)
      made.push_back(
          from_values<typename T::value_type>(values.entries()[i], ValuesPath(path, values, i)));
    return made;
  } else {
    refuse_as_values<T>();
    return T();
  }
}

}  // namespace mica
