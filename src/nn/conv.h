#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"
#include "mica/ops/conv/options.h"
#include "mica/ops/pad/pad.h"

namespace mica::nn {

/// Options of Conv1d (sizes are int64_t), Conv2d (Size2) and Conv3d (Size3).
template <class Size>
struct ConvLayerOptions {
  int64_t in = 0;   ///< channels
  int64_t out = 0;  ///< channels
  Size kernel = 0;
  Size stride = 1;
  Padding<Size> padding = 0;
  Size dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PadMode padding_mode = PadMode::constant;  ///< what lies outside; zeros for constant

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("out", self.out);
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
    f("groups", self.groups);
    f("bias", self.bias);
    f("padding_mode", self.padding_mode);
  }
};

/// Options of ConvTranspose1d, 2d and 3d.
template <class Size>
struct ConvTransposeLayerOptions {
  int64_t in = 0;   ///< channels
  int64_t out = 0;  ///< channels
  Size kernel = 0;
  Size stride = 1;
  Size padding = 0;         ///< taken from both sides of each axis of the result
  Size output_padding = 0;  ///< added at the end of each axis; smaller than the stride
  Size dilation = 1;
  int64_t groups = 1;
  bool bias = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("out", self.out);
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("output_padding", self.output_padding);
    f("dilation", self.dilation);
    f("groups", self.groups);
    f("bias", self.bias);
  }
};

/// A convolution, or a transposed one, by the type of its options.
template <class Options>
struct ConvImpl : ModuleImpl {
  explicit ConvImpl(const Options& options);
  /// (N, in, space…) to (N, out, space…).
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  Options options;
  Parameter weight{this, "weight"};  ///< (out, in/groups, kernel…); transposed (in, out/groups, …)
  Parameter bias{this, "bias"};      ///< (out), or undefined
};

/// `Conv2d(1, 20, 5)` or `Conv2d({.in = 1, .out = 20, .kernel = 5, .stride = 2})`.
template <class Options>
class ConvLayer : public Handle<ConvImpl<Options>> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  ConvLayer(Nothing) : Handle<ConvImpl<Options>>(nullptr) {}
  explicit ConvLayer(const Options& options) : Handle<ConvImpl<Options>>(options) {}
  ConvLayer(int64_t in, int64_t out, decltype(Options::kernel) kernel)
      : Handle<ConvImpl<Options>>(Options{.in = in, .out = out, .kernel = kernel}) {}
};

using Conv1dOptions = ConvLayerOptions<int64_t>;
using Conv2dOptions = ConvLayerOptions<Size2>;
using Conv3dOptions = ConvLayerOptions<Size3>;
using ConvTranspose1dOptions = ConvTransposeLayerOptions<int64_t>;
using ConvTranspose2dOptions = ConvTransposeLayerOptions<Size2>;
using ConvTranspose3dOptions = ConvTransposeLayerOptions<Size3>;

/// Over (N, C, L).
using Conv1d = ConvLayer<Conv1dOptions>;
/// Over (N, C, H, W): `Conv2d(1, 8, 3)`, or with names.
using Conv2d = ConvLayer<Conv2dOptions>;
/// Over (N, C, D, H, W).
using Conv3d = ConvLayer<Conv3dOptions>;
/// The transpose of Conv1d, which makes its input larger.
using ConvTranspose1d = ConvLayer<ConvTranspose1dOptions>;
/// The transpose of Conv2d.
using ConvTranspose2d = ConvLayer<ConvTranspose2dOptions>;
/// The transpose of Conv3d.
using ConvTranspose3d = ConvLayer<ConvTranspose3dOptions>;

}  // namespace mica::nn
