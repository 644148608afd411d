#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/im2col/im2col.h"
#include "mica/ops/pixel_shuffle/pixel_shuffle.h"
#include "mica/ops/upsample/upsample.h"
#include "mica/ops/view/rearrange.h"
#include "mica/ops/view/view.h"

namespace mica::nn {

template <>
inline std::string text_of(const Scale& s) {
  const std::string h = print_field(s.h);
  const std::string w = print_field(s.w);
  if (s.d != 0 && (s.d != s.h || s.d != s.w))
    return "{" + print_field(s.d) + ", " + h + ", " + w + "}";
  return h == w ? h : "{" + h + ", " + w + "}";
}

/// (N, C * r², H, W) to (N, C, H * r, W * r), and back: `PixelShuffle(2)`.
using PixelShuffle = OpLayer<"PixelShuffle", pixel_shuffle, int64_t>;
/// (N, C, H * r, W * r) to (N, C * r², H, W).
using PixelUnshuffle = OpLayer<"PixelUnshuffle", pixel_unshuffle, int64_t>;
/// The channels of groups in turn: `ChannelShuffle(2)`.
using ChannelShuffle = OpLayer<"ChannelShuffle", channel_shuffle, int64_t>;
/// `Upsample({.scale = 2, .mode = UpsampleMode::bilinear})`.
using Upsample = OpLayer<"Upsample", upsample, UpsampleOptions>;
/// The windows of an image as columns: `Unfold({.kernel = 3, .padding = 1})`.
using Unfold = OpLayer<"Unfold", im2col, Im2colParams>;

struct FlattenOptions {
  int64_t start = 1;  ///< the first axis that is flattened
  int64_t end = -1;   ///< and the last

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("start", self.start);
    f("end", self.end);
  }
};

struct UnflattenOptions {
  int64_t axis = 1;
  Shape sizes = {};  ///< what the axis becomes; one may be -1

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("sizes", self.sizes);
  }
};

struct FoldOptions {
  Size2 output = 0;
  Size2 kernel = 1;
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("output", self.output);
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
  }
};

/// Of images; either the size or the scale is given.
struct UpsamplingOptions {
  Dims size = {};
  Scale scale = {};

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("size", self.size);
    f("scale", self.scale);
  }
};

namespace function {

inline Tensor upsample_nearest(const Tensor& x, const UpsamplingOptions& o) {
  return upsample(x, {.size = o.size, .scale = o.scale, .mode = UpsampleMode::nearest});
}
inline Tensor upsample_bilinear(const Tensor& x, const UpsamplingOptions& o) {
  return upsample(
      x, {.size = o.size, .scale = o.scale, .mode = UpsampleMode::bilinear, .align_corners = true});
}
inline Tensor identity(const Tensor& x) { return x; }
inline Tensor flatten(const Tensor& x, const FlattenOptions& o) {
  return mica::flatten(x, o.start, o.end);
}
inline Tensor unflatten(const Tensor& x, const UnflattenOptions& o) {
  return mica::unflatten(x, o.axis, o.sizes);
}
inline Tensor fold(const Tensor& x, const FoldOptions& o) {
  return col2im(x, {{o.kernel, o.stride, o.padding, o.dilation}, o.output});
}

}  // namespace function

/// `Upsample` of (N, C, H, W) by its older names; the bilinear one keeps the corners in place.
using UpsamplingNearest2d =
    OpLayer<"UpsamplingNearest2d", function::upsample_nearest, UpsamplingOptions>;
using UpsamplingBilinear2d =
    OpLayer<"UpsamplingBilinear2d", function::upsample_bilinear, UpsamplingOptions>;
/// x.
using Identity = OpLayer<"Identity", function::identity>;
/// The axes in another order: `Permute({0, 2, 3, 1})`.
using Permute = OpLayer<"Permute", permute, Dims>;
/// (N, …) to (N, the product of the others), or other axes: `Flatten({.start = 0, .end = 1})`.
using Flatten = OpLayer<"Flatten", function::flatten, FlattenOptions>;
/// `Unflatten({.axis = 1, .sizes = {50, 4, 4}})`.
using Unflatten = OpLayer<"Unflatten", function::unflatten, UnflattenOptions>;
/// Columns added up to an image of size `output`.
using Fold = OpLayer<"Fold", function::fold, FoldOptions>;

}  // namespace mica::nn
