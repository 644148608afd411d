// Convolutions.
#include "mica/ops/conv2d/conv2d.h"

#include <functional>
#include <numeric>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/onnx/convolution.h"
#include "mica/onnx/windows.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/conv/conv1d.h"
#include "mica/ops/conv/conv_transpose.h"
#include "mica/ops/conv3d/conv3d.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/im2col/im2col.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {

Tensor convolve(const Call& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<int64_t> kernel = c.ints("kernel_shape");
  if (kernel.empty())
    for (int i = 2; i < weight.rank(); ++i) kernel.push_back(weight.shape()[i]);
  const Windows w = Windows::of(c, x.shape(), kernel);
  const int64_t groups = c.integer("group", 1);
  switch (w.rank()) {
    case 1:
      return conv1d(x, weight, bias,
                    {.stride = w.stride[0],
                     .padding = Padding<int64_t>::sides(w.before[0], w.after[0]),
                     .dilation = w.dilation[0],
                     .groups = groups});
    case 2: {
      const auto two = [](const std::vector<int64_t>& v) { return Size2(v[0], v[1]); };
      return conv2d(x, weight, bias,
                    {.stride = two(w.stride),
                     .padding = Padding<Size2>::sides(two(w.before), two(w.after)),
                     .dilation = two(w.dilation),
                     .groups = groups});
    }
    case 3: {
      const auto three = [](const std::vector<int64_t>& v) { return Size3(v[0], v[1], v[2]); };
      return conv3d(x, weight, bias,
                    {.stride = three(w.stride),
                     .padding = Padding<Size3>::sides(three(w.before), three(w.after)),
                     .dilation = three(w.dilation),
                     .groups = groups});
    }
    default:
      c.fail(fmt::format("a convolution over {} axes; mica has those of 1 to 3", w.rank()));
  }
}

namespace {

Results conv(const Call& c) { return convolve(c, c[0], c[1], c.maybe(2)); }

/// (C) as (C, 1, …), to be added to images.
Tensor by_channel(const Tensor& bias, int axes) {
  Shape shape = {bias.numel()};
  for (int i = 0; i < axes; ++i) shape.push_back(1);
  return reshape(bias, shape);
}

Tensor transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Windows& w,
                  const std::vector<int64_t>& padding, const std::vector<int64_t>& output_padding,
                  int64_t groups) {
  const auto options = [&](auto size) {
    return ConvTransposeOptions<decltype(size(w.stride))>{.stride = size(w.stride),
                                                          .padding = size(padding),
                                                          .output_padding = size(output_padding),
                                                          .dilation = size(w.dilation),
                                                          .groups = groups};
  };
  using Ints = std::vector<int64_t>;
  if (w.rank() == 1)
    return conv_transpose1d(x, weight, bias, options([](const Ints& v) { return v[0]; }));
  if (w.rank() == 2)
    return conv_transpose2d(x, weight, bias,
                            options([](const Ints& v) { return Size2(v[0], v[1]); }));
  return conv_transpose3d(x, weight, bias,
                          options([](const Ints& v) { return Size3(v[0], v[1], v[2]); }));
}

Results conv_transpose(const Call& c) {
  const Tensor x = c[0];
  const Tensor weight = c[1];
  const Tensor bias = c.maybe(2);
  std::vector<int64_t> kernel = c.ints("kernel_shape");
  if (kernel.empty())
    for (int i = 2; i < weight.rank(); ++i) kernel.push_back(weight.shape()[i]);
  Windows w = Windows::of(c, x.shape(), kernel);
  const size_t n = w.rank();
  c.check(n >= 1 && n <= 3, "a convolution over {} axes; mica has those of 1 to 3", n);
  const int64_t groups = c.integer("group", 1);
  std::vector<int64_t> extra = c.ints("output_padding", std::vector<int64_t>(n, 0));
  std::vector<int64_t> wanted = c.ints("output_shape");
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const std::string automatic = c.text("auto_pad", "NOTSET");
  c.check(extra.size() == n && (wanted.empty() || wanted.size() == n),
          "{} output paddings and {} output sizes for windows of {} axes", extra.size(),
          wanted.size(), n);
  const bool same = automatic.starts_with("SAME");
  std::vector<int64_t> whole(n);
  for (size_t i = 0; i < n; ++i) {
    whole[i] = (x.shape()[static_cast<int>(i) + 2] - 1) * w.stride[i] + w.extent(i);
    if (wanted.empty() && !same) continue;
    const int64_t size =
        wanted.empty() ? x.shape()[static_cast<int>(i) + 2] * w.stride[i] : wanted[i];
    const int64_t total = whole[i] + extra[i] - size;
    // What is to be taken away; less than nothing adds zeros at the end.
    const int64_t cut = std::max<int64_t>(0, total);
    w.before[i] = automatic == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    if (automatic == "NOTSET") w.before[i] = cut / 2;
    if (automatic == "SAME_LOWER") w.before[i] = cut - cut / 2;
    w.after[i] = cut - w.before[i];
    if (total < 0) extra[i] -= total;
  }
  bool direct = w.is_symmetric();
  for (size_t i = 0; i < n; ++i) direct = direct && extra[i] < w.stride[i] && w.before[i] >= 0;
  if (direct) return transposed(x, weight, bias, w, w.before, extra, groups);
  const std::vector<int64_t> none(n, 0);
  Tensor y = transposed(x, weight, {}, w, none, none, groups);
  for (size_t i = 0; i < n; ++i) {
    const int axis = static_cast<int>(i) + 2;
    if (extra[i] > 0) {
      PadParams more;
      more.before = more.after = Dims::filled(y.rank(), 0);
      more.after[axis] = extra[i];
      y = pad(y, more);
    }
    y = slice(y, axis, w.before[i], whole[i] + extra[i] - w.after[i]);
  }
  return bias.defined() ? add(y, by_channel(bias, static_cast<int>(n))) : y;
}

Results col2im_of(const Call& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> image = c.ints(1);
  const std::vector<int64_t> block = c.ints(2);
  const size_t n = image.size();
  c.check(n >= 1 && block.size() == n && x.rank() == 3, "columns of {} for an image of {} axes",
          x.shape(), n);
  const int64_t kernel =
      std::accumulate(block.begin(), block.end(), int64_t{1}, std::multiplies<>());
  const int64_t channels = x.shape()[1] / kernel;
  Shape shape = {x.shape()[0], channels};
  for (const int64_t size : image) shape.push_back(size);
  const Windows w = Windows::of(c, shape, block);
  if (n == 2 && w.is_symmetric()) {
    Col2imParams params;
    params.im2col = {.kernel = {block[0], block[1]},
                     .stride = {w.stride[0], w.stride[1]},
                     .padding = {w.before[0], w.before[1]},
                     .dilation = {w.dilation[0], w.dilation[1]}};
    params.size = {image[0], image[1]};
    return col2im(x, params);
  }
  // Each place of the window on its own, added to zeros that reach over the edges.
  Shape padded = shape;
  Shape counts;
  for (size_t i = 0; i < n; ++i) {
    padded[static_cast<int>(i) + 2] += w.before[i] + w.after[i];
    counts.push_back(w.count(i, image[i], false));
  }
  Shape columns = {x.shape()[0], channels, kernel};
  for (const int64_t count : counts) columns.push_back(count);
  const Tensor parts = reshape(x, columns);
  Tensor y = zeros(padded, {x.dtype(), x.device()});
  for (int64_t k = 0; k < kernel; ++k) {
    Tensor part = select(parts, 2, k);
    int64_t rest = k;
    for (size_t i = n; i-- > 0;) {
      const int axis = static_cast<int>(i) + 2;
      const int64_t begin = rest % block[i] * w.dilation[i];
      rest /= block[i];
      Shape grown = part.shape();
      grown[axis] = padded[axis];
      part = slice_grad(part, {{.axis = axis,
                                .start = begin,
                                .stop = begin + (counts[static_cast<int>(i)] - 1) * w.stride[i] + 1,
                                .step = w.stride[i]},
                               grown});
    }
    y = add(y, part);
  }
  for (size_t i = 0; i < n; ++i)
    y = slice(y, static_cast<int64_t>(i) + 2, w.before[i], w.before[i] + image[i]);
  return y;
}

/// x (B, C, H, W) between its pixels, at y and x (B, 1, P): (B, C, P), zero outside.
Tensor bilinear(const Tensor& image, const Tensor& y, const Tensor& x) {
  const int64_t h = image.shape()[2];
  const int64_t w = image.shape()[3];
  const Tensor flat = flatten(image, 2);
  const Tensor y0 = floor(y);
  const Tensor x0 = floor(x);
  Tensor result;
  for (int dy = 0; dy < 2; ++dy)
    for (int dx = 0; dx < 2; ++dx) {
      const Tensor row = add(y0, dy);
      const Tensor column = add(x0, dx);
      const Tensor inside = logical_and(logical_and(ge(row, 0), lt(row, h)),
                                        logical_and(ge(column, 0), lt(column, w)));
      const Tensor weight = mul(sub(1, abs(sub(y, row))), sub(1, abs(sub(x, column))));
      const Tensor at = add(mul(clamp(row, Number(0.0), Number(static_cast<double>(h - 1))), w),
                            clamp(column, Number(0.0), Number(static_cast<double>(w - 1))));
      Shape shape = at.shape();
      shape[1] = flat.shape()[1];
      const Tensor values = gather(flat, 2, contiguous(expand(cast(at, DType::i64), shape)));
      const Tensor part = mul(values, where(inside, weight, 0.0));
      result = result.defined() ? add(result, part) : part;
    }
  return result;
}

Results deform_conv(const Call& c) {
  const Tensor x = c[0];
  const Tensor weight = c[1];
  const Tensor offset = c[2];
  std::vector<int64_t> kernel = c.ints("kernel_shape");
  if (kernel.empty())
    for (int i = 2; i < weight.rank(); ++i) kernel.push_back(weight.shape()[i]);
  const Windows w = Windows::of(c, x.shape(), kernel);
  c.check(w.rank() == 2, "a deformable convolution over {} axes; mica has that of 2", w.rank());
  const int64_t parts = c.integer("offset_group", 1);
  const int64_t groups = c.integer("group", 1);
  const int64_t n = x.shape()[0];
  const int64_t channels = x.shape()[1];
  const int64_t out_h = w.count(0, x.shape()[2], false);
  const int64_t out_w = w.count(1, x.shape()[3], false);
  const int64_t k = kernel[0] * kernel[1];
  const TensorOptions options{x.dtype(), x.device()};
  // Where each place of each window lies without offsets: (k, out_h, out_w).
  const auto places = [&](size_t axis, const Shape& by_place, const Shape& by_window) {
    const Tensor tap = mul(arange(w.kernel[axis], options), w.dilation[axis]);
    const Tensor begin =
        sub(mul(arange(axis == 0 ? out_h : out_w, options), w.stride[axis]), w.before[axis]);
    return add(reshape(tap, by_place), reshape(begin, by_window));
  };
  const Tensor rows = places(0, {kernel[0], 1, 1, 1}, {1, 1, out_h, 1});
  const Tensor columns = places(1, {1, kernel[1], 1, 1}, {1, 1, 1, out_w});
  const Tensor shift = reshape(offset, {n, parts, kernel[0], kernel[1], 2, out_h, out_w});
  const Shape points = {n * parts, 1, k * out_h * out_w};
  const Tensor y = reshape(add(select(shift, 4, 0), rows), points);
  const Tensor x_at = reshape(add(select(shift, 4, 1), columns), points);
  Tensor sampled =
      bilinear(reshape(x, {n * parts, channels / parts, x.shape()[2], x.shape()[3]}), y, x_at);
  if (c.has(4)) sampled = mul(sampled, reshape(c[4], points));
  const Tensor by_group = reshape(sampled, {n, groups, channels / groups * k, out_h * out_w});
  const int64_t out = weight.shape()[0];
  const Tensor matrix = reshape(weight, {groups, out / groups, channels / groups * k});
  Tensor result = reshape(matmul(matrix, by_group), {n, out, out_h, out_w});
  if (c.has(3)) result = add(result, by_channel(c[3], 2));
  return result;
}

/// A depthwise convolution along the last axis that sees what came before, and keeps its end for
/// the next call.
Results causal_conv_with_state(const Call& c) {
  const Tensor x = c[0];
  const Tensor weight = c[1];
  c.check(x.rank() == 3 && weight.rank() == 3, "input {} and weight {}; both must have 3 axes",
          x.shape(), weight.shape());
  const int64_t k = weight.shape()[2];
  Tensor before =
      c.has(3) ? c[3] : zeros({x.shape()[0], x.shape()[1], k - 1}, {x.dtype(), x.device()});
  const Tensor whole = concat({before, x}, 2);
  Tensor y = conv1d(whole, weight, c.maybe(2), {.groups = x.shape()[1]});
  if (const std::string f = c.text("activation", "none"); f == "silu" || f == "swish")
    y = mul(y, sigmoid(y));
  return {y, slice(whole, 2, whole.shape()[2] - (k - 1), whole.shape()[2])};
}

}  // namespace

Operators convolution_operators() {
  return {
      {"Conv", conv},
      {"ConvTranspose", conv_transpose},
      {"Col2Im", col2im_of},
      {"DeformConv", deform_conv},
      {"CausalConvWithState", causal_conv_with_state},
  };
}

}  // namespace mica::onnx
