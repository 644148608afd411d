#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/conv2d/conv2d.h"

// Layers whose products are of 8-bit integers, for networks whose ranges are known
// (inference/quantize.h). They take f32, or the integers that stand for it, and give f32.
namespace mica {

/// How an input becomes integers: x times 1 / scale, rounded to even, held to -128 … 127, or to
/// 0 … 255 where it has no negative numbers.
struct Quantization {
  double scale = 1;
  bool has_sign = true;

  double lowest() const { return has_sign ? -128 : 0; }
  double highest() const { return has_sign ? 127 : 255; }
  DType dtype() const { return has_sign ? DType::i8 : DType::u8; }

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("x_scale", self.scale);
    f("x_sign", self.has_sign);
  }
};

struct QuantizedConv2dParams {
  Conv2dParams conv;
  Quantization x;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    Quantization::fields(self.x, f);
  }
};

struct QuantizedLinearParams {
  Quantization x;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Quantization::fields(self.x, f);
  }
};

/// conv2d of x (N, C_in, H, W) as integers with weight (C_out, C_in/groups, kH, kW) i8, times scale
/// (C_out) of f32, plus bias (C_out) where defined.
Tensor quantized_conv2d(const Tensor& x, const Tensor& weight, const Tensor& scale,
                        const Tensor& bias, const QuantizedConv2dParams& params);

/// The same of x (…, in) and weight (out, in): scale and bias (out).
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& scale,
                        const Tensor& bias, const QuantizedLinearParams& params);

}  // namespace mica
