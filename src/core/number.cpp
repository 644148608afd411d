#include "mica/core/number.h"

#include <cmath>
#include <cstring>

#include "mica/core/dtype_switch.h"

namespace mica {

std::string to_string(Number value) {
  switch (value.kind()) {
    case Number::Kind::boolean:
      return value.as<bool>() ? "true" : "false";
    case Number::Kind::integer:
      return fmt::format("{}", value.as<int64_t>());
    case Number::Kind::unsigned_integer:
      return fmt::format("{}", value.as<uint64_t>());
    case Number::Kind::complex:
      return fmt::format("{}{:+}j", value.to_double(), value.imag());
    case Number::Kind::floating:
      break;
  }
  return fmt::format("{}", value.to_double());
}

bool fits(Number value, DType dtype) {
  if (value.is_complex()) return is_complex(dtype);
  if (!is_integer(dtype)) return true;
  return switch_integers(dtype, "number", [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      return true;
    } else {
      return value.fits_in<T>();
    }
  });
}

Number held_in(DType dtype, Number value) {
  return switch_all(dtype, [&]<class T>() -> Number {
    if constexpr (std::is_integral_v<T>) {
      return value.as<T>();
    } else if constexpr (kIsComplex<T>) {
      return Complex<double>(value.as<T>());
    } else {
      return static_cast<double>(value.as<T>());
    }
  });
}

ElementWords element_words(Number value, DType dtype) {
  ElementWords words{};
  switch_all(dtype, [&]<class T>() {
    const T v = value.as<T>();
    std::memcpy(words.data(), &v, sizeof v);
  });
  return words;
}

double Number::without_fraction(double value) { return std::trunc(value); }

}  // namespace mica
