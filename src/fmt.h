#pragma once

// Tensors, shapes, dtypes and devices in {fmt}'s format strings, for programs that have {fmt}:
// `fmt::print("{} of shape {}\n", t, t.shape())`. No other header of mica includes it.
#include <concepts>

#include "mica/core/check.h"
#include "mica/core/tensor.h"

template <std::derived_from<mica::Tensor> T>  // a layer's weight is one too
struct fmt::formatter<T> : mica::PlainFormatter {
  auto format(const mica::Tensor& t, fmt::format_context& context) const {
    return write(mica::to_string(t), context);
  }
};
