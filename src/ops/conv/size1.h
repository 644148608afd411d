#pragma once

#include <type_traits>

#include "mica/op/function.h"

namespace mica {

/// A size along the one axis of (N, C, L), which may be given as a list of one, as the sizes of
/// images are lists.
struct Size1 {
  int64_t size = 0;

  constexpr Size1() = default;
  constexpr Size1(int64_t n) : size(n) {}              // NOLINT(google-explicit-constructor)
  constexpr operator int64_t() const { return size; }  // NOLINT(google-explicit-constructor)
};

/// How a size of convolution or pooling is taken from who calls.
template <class Size>
using SizeArgument = std::conditional_t<std::is_same_v<Size, int64_t>, Size1, Size>;

template <>
struct FromArgument<Size1> {
  static constexpr auto kind = ParameterKind::size1;
  static Size1 from(const Argument& a) { return FromArgument<Dims>::from(a)[0]; }
};

}  // namespace mica
