// Quantized tensors, computed with by what they stand for.
#include <algorithm>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/onnx/convolution.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/repeat/repeat.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// A scale or zero point so that it broadcasts with x: one for all, one for each index of an axis,
/// or one for each block of an axis.
Tensor along(const Call& c, const Tensor& parameter, const Tensor& x, int64_t axis,
             int64_t block = 0) {
  if (parameter.numel() == 1) return reshape(parameter, {});
  if (block > 0) {
    const Tensor wide = repeat_interleave(parameter, block, axis);
    return slice(wide, axis, 0, x.shape()[static_cast<int>(axis)]);
  }
  c.check(parameter.rank() == 1 && parameter.numel() == x.shape()[static_cast<int>(axis)],
          "a scale or zero point of {} for axis {} of {}", parameter.shape(), axis, x.shape());
  Shape shape = Dims::filled(x.rank(), 1);
  shape[static_cast<int>(axis)] = parameter.numel();
  return reshape(parameter, shape);
}

int64_t quantized_axis(const Call& c, const Tensor& x) {
  if (x.rank() == 0) return 0;
  const int64_t axis = c.integer("axis", 1);
  return axis_of(c, axis >= x.rank() ? x.rank() - 1 : axis, x.rank());
}

/// Rounded to even, moved and held to what a dtype has.
Tensor rounded_to(const Tensor& scaled, const Tensor& zero, DType dtype) {
  Tensor y = round(scaled);
  if (zero.defined()) y = add(y, cast(zero, y.dtype()));
  const IntegerLimits limits = integer_limits(dtype);
  return cast(clamp(y, Number(static_cast<double>(limits.lowest)),
                    Number(static_cast<double>(limits.largest))),
              dtype);
}

Tensor wide(const Tensor& x) {
  return is_floating(x.dtype()) && size_of(x.dtype()) < 4 ? cast(x, DType::f32) : x;
}

Results quantize(const Call& c) {
  const Tensor x = wide(cast(c[0], is_floating(c[0].dtype()) ? c[0].dtype() : DType::f32));
  const int64_t axis = quantized_axis(c, x);
  const int64_t block = c.integer("block_size", 0);
  const Tensor scale = cast(along(c, c[1], x, axis, block), x.dtype());
  const Tensor zero = c.has(2) ? along(c, c[2], x, axis, block) : Tensor();
  DType dtype = zero.defined() ? zero.dtype() : DType::u8;
  if (const int64_t named = c.integer("output_dtype", 0); named != 0) dtype = c.dtype(named);
  c.check(is_integer(dtype), "quantizes to {}", dtype);
  return rounded_to(div(x, scale), zero, dtype);
}

Results dequantize(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = quantized_axis(c, x);
  const int64_t block = c.integer("block_size", 0);
  const DType dtype = c.dtype("output_dtype", c[1].dtype());
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Tensor scale = cast(along(c, c[1], x, axis, block), compute);
  Tensor value = cast(x, compute);
  if (c.has(2)) value = sub(value, cast(along(c, c[2], x, axis, block), compute));
  return cast(mul(value, scale), dtype);
}

Results dynamic_quantize(const Call& c) {
  const Tensor x = c[0];
  const Tensor low = minimum(min(x), 0);
  const Tensor high = maximum(max(x), 0);
  const Tensor range = div(sub(high, low), 255.0);
  const Tensor scale = where(eq(range, 0), 1.0, range);
  const Tensor zero =
      rounded_to(clamp(div(neg(low), scale), Number(0.0), Number(255.0)), {}, DType::u8);
  return {rounded_to(div(x, scale), zero, DType::u8), where(eq(range, 0), range, scale), zero};
}

/// x without its zero point, as f32.
Tensor centered(const Tensor& x, const Tensor& zero) {
  const Tensor value = cast(x, DType::f32);
  return zero.defined() ? sub(value, cast(zero, DType::f32)) : value;
}

/// A zero point of a matrix: one, one for each row of the left or each column of the right one.
Tensor of_matrix(const Tensor& zero, bool left) {
  if (!zero.defined() || zero.numel() == 1) return zero.defined() ? reshape(zero, {}) : zero;
  return left && zero.rank() == 1 ? unsqueeze(zero, -1) : zero;
}

/// An integer product in floats, exact: of products of up to 2^16, 256 sums still are. With the
/// left operand in two parts of 4 bits it is for sums of 4096; beyond them in doubles.
template <class Product>
Tensor exact(const Tensor& x, int64_t sums, Product product) {
  if (sums <= 256) return cast(product(x, DType::f32), DType::i32);
  if (sums > 4096) return cast(product(cast(x, DType::f64), DType::f64), DType::i32);
  const Tensor upper = floor(div(x, 16.0));
  const Tensor lower = sub(x, mul(upper, 16.0));
  return add(mul(cast(product(upper, DType::f32), DType::i32), 16),
             cast(product(lower, DType::f32), DType::i32));
}

Results matmul_integer(const Call& c) {
  const Tensor a = centered(c[0], of_matrix(c.maybe(2), true));
  const Tensor b = centered(c[1], of_matrix(c.maybe(3), false));
  return exact(a, a.shape().back(),
               [&](const Tensor& x, DType dtype) { return matmul(x, cast(b, dtype)); });
}

/// The zero point of a weight (C_out, …): one, or one for each output channel.
Tensor of_weight(const Tensor& zero, int rank) {
  if (!zero.defined() || zero.numel() == 1) return zero.defined() ? reshape(zero, {}) : zero;
  Shape shape = Dims::filled(rank, 1);
  shape[0] = zero.numel();
  return reshape(zero, shape);
}

Results conv_integer(const Call& c) {
  const Tensor x = centered(c[0], c.has(2) ? reshape(c[2], {}) : Tensor());
  const Tensor w = centered(c[1], of_weight(c.maybe(3), c[1].rank()));
  return exact(
      x, w.numel() / std::max<int64_t>(1, w.shape()[0]),
      [&](const Tensor& part, DType dtype) { return convolve(c, part, cast(w, dtype), {}); });
}

/// a, its scale and zero point, b, its scale and zero point, y's scale and zero point.
Results qlinear_matmul(const Call& c) {
  const Tensor a = centered(c[0], of_matrix(c.maybe(2), true));
  const Tensor b = centered(c[3], of_matrix(c.maybe(5), false));
  const DType dtype = DType::f32;
  const Tensor scale =
      div(mul(cast(of_matrix(c[1], true), dtype), cast(of_matrix(c[4], false), dtype)),
          cast(c[6], dtype));
  return rounded_to(mul(matmul(a, b), scale), c[7], c[7].dtype());
}

Results qlinear_conv(const Call& c) {
  const Tensor x = centered(c[0], reshape(c[2], {}));
  const Tensor w = centered(c[3], of_weight(c[5], c[3].rank()));
  Tensor bias;
  if (c.has(8)) bias = cast(c[8], DType::f32);
  const Tensor y = convolve(c, x, w, bias);
  Tensor scale = mul(reshape(c[1], {}), c[4]);
  if (scale.numel() > 1) {
    Shape shape = Dims::filled(y.rank(), 1);
    shape[1] = scale.numel();
    scale = reshape(scale, shape);
  } else {
    scale = reshape(scale, {});
  }
  return rounded_to(mul(y, div(scale, reshape(c[6], {}))), reshape(c[7], {}), c[7].dtype());
}

}  // namespace

Operators quantization_operators() {
  return {
      {"QuantizeLinear", quantize},
      {"DequantizeLinear", dequantize},
      {"DynamicQuantizeLinear", dynamic_quantize},
      {"MatMulInteger", matmul_integer},
      {"ConvInteger", conv_integer},
      {"QLinearMatMul", qlinear_matmul},
      {"QLinearConv", qlinear_conv},
  };
}

}  // namespace mica::onnx
