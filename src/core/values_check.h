#pragma once

// check() with Values in its messages; apart, since public headers do without {fmt}.
#include "mica/core/check.h"
#include "mica/core/values.h"

template <>
struct fmt::formatter<mica::Values> : mica::PlainFormatter {
  auto format(const mica::Values& v, fmt::format_context& context) const {
    return write(mica::to_string(v), context);
  }
};
template <>
struct fmt::formatter<mica::ValuesPath> : mica::PlainFormatter {
  auto format(const mica::ValuesPath& p, fmt::format_context& context) const {
    return write(p.text(), context);
  }
};
