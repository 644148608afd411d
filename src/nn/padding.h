#pragma once

#include "mica/nn/op_layer.h"
#include "mica/nn/sizes.h"
#include "mica/ops/pad/pad.h"

namespace mica::nn {

template <class Size>
struct ConstantPadOptions {
  Padding<Size> padding = 0;
  Number value = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("padding", self.padding);
    f("value", self.value);
  }
};

namespace function {

template <PadMode mode, class Size>
Tensor pad(const Tensor& x, const Padding<Size>& p) {
  return mica::pad(x, {.before = dims_of(p.before), .after = dims_of(p.after), .mode = mode});
}
template <class Size>
Tensor constant_pad(const Tensor& x, const ConstantPadOptions<Size>& o) {
  return mica::pad(
      x,
      {.before = dims_of(o.padding.before), .after = dims_of(o.padding.after), .value = o.value});
}

}  // namespace function

template <FixedString type, PadMode mode, class Size>
using PadLayer = OpLayer<type, function::pad<mode, Size>, Padding<Size>>;

// `ReflectionPad2d(1)`, `ReflectionPad2d({1, 2})` by axis, or
// `ReflectionPad2d(Padding<Size2>::sides({0, 1}, {2, 1}))`.
using ZeroPad1d = PadLayer<"ZeroPad1d", PadMode::constant, int64_t>;
/// Zeros around (N, C, H, W).
using ZeroPad2d = PadLayer<"ZeroPad2d", PadMode::constant, Size2>;
using ZeroPad3d = PadLayer<"ZeroPad3d", PadMode::constant, Size3>;
using ReflectionPad1d = PadLayer<"ReflectionPad1d", PadMode::reflect, int64_t>;
/// Mirrored at the border, which is not repeated.
using ReflectionPad2d = PadLayer<"ReflectionPad2d", PadMode::reflect, Size2>;
using ReflectionPad3d = PadLayer<"ReflectionPad3d", PadMode::reflect, Size3>;
using ReplicationPad1d = PadLayer<"ReplicationPad1d", PadMode::replicate, int64_t>;
/// The border repeated.
using ReplicationPad2d = PadLayer<"ReplicationPad2d", PadMode::replicate, Size2>;
using ReplicationPad3d = PadLayer<"ReplicationPad3d", PadMode::replicate, Size3>;
using CircularPad1d = PadLayer<"CircularPad1d", PadMode::circular, int64_t>;
/// From the other side.
using CircularPad2d = PadLayer<"CircularPad2d", PadMode::circular, Size2>;
using CircularPad3d = PadLayer<"CircularPad3d", PadMode::circular, Size3>;
/// `ConstantPad2d({.padding = 1, .value = 3.5})`.
using ConstantPad1d =
    OpLayer<"ConstantPad1d", function::constant_pad<int64_t>, ConstantPadOptions<int64_t>>;
using ConstantPad2d =
    OpLayer<"ConstantPad2d", function::constant_pad<Size2>, ConstantPadOptions<Size2>>;
using ConstantPad3d =
    OpLayer<"ConstantPad3d", function::constant_pad<Size3>, ConstantPadOptions<Size3>>;

}  // namespace mica::nn
