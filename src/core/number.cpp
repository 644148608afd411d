#include "mica/core/number.h"

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
    case Number::Kind::floating:
      break;
  }
  return fmt::format("{}", value.to_double());
}

bool fits(Number value, DType dtype) {
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
    } else {
      return static_cast<double>(value.as<T>());
    }
  });
}

uint64_t element_bits(Number value, DType dtype) {
  uint64_t bits = 0;
  switch_all(dtype, [&]<class T>() {
    const T v = value.as<T>();
    std::memcpy(&bits, &v, sizeof v);
  });
  return bits;
}

}  // namespace mica
