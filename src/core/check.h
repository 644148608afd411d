#pragma once

#include <fmt/core.h>

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/core/error.h"
#include "mica/core/number.h"
#include "mica/core/spec.h"

namespace mica {

/// Lets {fmt} print a type that has `to_string` or `name_of`, with its light header alone.
struct PlainFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  static auto write(std::string_view text, fmt::format_context& context) {
    auto out = context.out();
    for (const char c : text) *out++ = c;
    return out;
  }
};

}  // namespace mica

template <>
struct fmt::formatter<mica::Dims> : mica::PlainFormatter {
  auto format(const mica::Dims& d, fmt::format_context& context) const {
    return write(mica::to_string(d), context);
  }
};
template <>
struct fmt::formatter<mica::DType> : mica::PlainFormatter {
  auto format(mica::DType t, fmt::format_context& context) const {
    return write(mica::name_of(t), context);
  }
};
template <>
struct fmt::formatter<mica::Number> : mica::PlainFormatter {
  auto format(mica::Number n, fmt::format_context& context) const {
    return write(mica::to_string(n), context);
  }
};
template <>
struct fmt::formatter<mica::Device> : mica::PlainFormatter {
  auto format(mica::Device d, fmt::format_context& context) const {
    return write(mica::to_string(d), context);
  }
};
template <>
struct fmt::formatter<mica::Size2> : mica::PlainFormatter {
  auto format(mica::Size2 s, fmt::format_context& context) const {
    return write(fmt::format("{{{}, {}}}", s.h, s.w), context);
  }
};
template <>
struct fmt::formatter<mica::Size3> : mica::PlainFormatter {
  auto format(mica::Size3 s, fmt::format_context& context) const {
    return write(fmt::format("{{{}, {}, {}}}", s.d, s.h, s.w), context);
  }
};
template <>
struct fmt::formatter<mica::TensorSpec> : mica::PlainFormatter {
  auto format(const mica::TensorSpec& s, fmt::format_context& context) const {
    return write(mica::to_string(s), context);
  }
};

namespace mica {

/// Throws `E` with a formatted message; the message starts with the op's or file's name.
template <class E = Error, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// `check<ShapeError>(condition, "conv2d: …", …)`: throws when the condition does not hold. Give it
/// specs and sizes as they are: they become text only in the message.
template <class E = Error, class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail<E>(format, std::forward<Args>(args)...);
}

}  // namespace mica
