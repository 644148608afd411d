#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/core/number.h"

// What the parameters of ops and the options of layers are made of.
namespace mica {

/// An enum whose values 0, 1, … have names: `names_of(E)` gives them.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  { names_of(e) } -> std::convertible_to<std::span<const char* const>>;
};

std::string print_field(bool v);
std::string print_field(int64_t v);
std::string print_field(double v);
std::string print_field(Number v);
std::string print_field(DType v);
std::string print_field(Device v);
std::string print_field(const Dims& v);
std::string print_field(Size2 v);
std::string print_field(Size3 v);
template <NamedEnum E>
std::string print_field(E v) {
  return names_of(v)[static_cast<size_t>(v)];
}

/// Parameters of an op that has none.
struct NoParams {
  template <class Self, class F>
  static void fields(Self&, F&&) {}
};

}  // namespace mica
