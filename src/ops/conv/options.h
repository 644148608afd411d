#pragma once

#include <concepts>

#include "mica/core/dims.h"

namespace mica {

/// What a convolution adds around an image: `1` or `{1, 2}` on both sides of each axis,
/// `Padding<Size2>::sides({0, 1}, {2, 1})`, or `Padding<Size2>::same()`.
template <class Size>
struct Padding {
  Size before = 0;
  Size after = 0;
  bool same_size = false;

  template <class... Sizes>
    requires std::constructible_from<Size, Sizes...>
  constexpr Padding(Sizes... both)  // NOLINT(google-explicit-constructor)
      : before(both...), after(both...) {}
  static constexpr Padding sides(Size before, Size after) {
    Padding p(before);
    p.after = after;
    return p;
  }
  /// As much as gives the result the input's size; the odd one of an odd number goes to the end.
  /// For a stride of 1.
  static constexpr Padding same() {
    Padding p(0);
    p.same_size = true;
    return p;
  }
};

/// Options of conv1d (sizes are int64_t), conv2d (Size2) and conv3d (Size3).
template <class Size>
struct ConvOptions {
  Size stride = 1;
  Padding<Size> padding = 0;
  Size dilation = 1;
  int64_t groups = 1;
};

/// Options of conv_transpose1d, 2d and 3d.
template <class Size>
struct ConvTransposeOptions {
  Size stride = 1;
  Size padding = 0;         ///< taken from both sides of each axis of the result
  Size output_padding = 0;  ///< added at the end of each axis; smaller than the stride
  Size dilation = 1;
  int64_t groups = 1;
};

}  // namespace mica
