#pragma once

// The padding of convolutions as PyTorch writes it.
#include <nanobind/stl/pair.h>

#include "python/src/words.h"

namespace mica::python {

template <class Size>
constexpr int kAxes = std::is_same_v<Size, Size3>   ? 3
                      : std::is_same_v<Size, Size2> ? 2
                                                    : 1;

template <class Size>
Size to_size(const Dims& d) {
  if constexpr (kAxes<Size> == 3) {
    return {d[0], d[1], d[2]};
  } else if constexpr (kAxes<Size> == 2) {
    return {d[0], d[1]};
  } else {
    return d[0];
  }
}

/// A size for both sides, "same", "valid", or a pair (before, after) for each axis.
template <class Size>
Padding<Size> parse_padding(const char* op, nb::handle value) {
  if (Size both{}; nb::try_cast(value, both)) return both;
  if (nb::isinstance<nb::str>(value)) {
    const std::string what = fmt::format("{}: padding", op);
    return parse_word<bool>(what.c_str(), nb::cast<std::string>(value),
                            {{"same", true}, {"valid", false}})
               ? Padding<Size>::same()
               : Padding<Size>(0);
  }
  std::vector<std::pair<int64_t, int64_t>> sides;
  if (!nb::try_cast(value, sides) || sides.size() != kAxes<Size>) {
    raise_type_error(
        "{}: padding must be {} integers, as many pairs (before, after), 'same' or 'valid', got {}",
        op, kAxes<Size>, nb::cast<std::string>(nb::repr(value)));
  }
  Dims before;
  Dims after;
  for (const auto& [b, a] : sides) {
    before.push_back(b);
    after.push_back(a);
  }
  return Padding<Size>::sides(to_size<Size>(before), to_size<Size>(after));
}

}  // namespace mica::python
