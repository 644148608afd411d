#pragma once

#include <fmt/core.h>

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/core/error.h"

template <>
struct fmt::formatter<mica::Dims> : fmt::formatter<std::string> {
  auto format(const mica::Dims& d, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(mica::to_string(d), ctx);
  }
};
template <>
struct fmt::formatter<mica::DType> : fmt::formatter<std::string_view> {
  auto format(mica::DType t, fmt::format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(mica::name_of(t), ctx);
  }
};
template <>
struct fmt::formatter<mica::Device> : fmt::formatter<std::string> {
  auto format(mica::Device d, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(mica::to_string(d), ctx);
  }
};

namespace mica {

/// Throws `E` with a formatted message; the message starts with the op's or file's name.
template <class E = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// `check<ShapeError>(condition, "conv2d: …", …)`: throws when the condition does not hold.
template <class E = Error, class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail<E>(format, std::forward<Args>(args)...);
}

}  // namespace mica
