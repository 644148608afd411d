#include "mica/ops/conv/shape.h"

#include <algorithm>
#include <array>
#include <limits>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/pad/pad.h"

namespace mica {
namespace {

// Sizes up to here can be multiplied with one another.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

struct Names {
  const char* input;
  const char* kernel;
};
const Names& names_of(int axes) {
  static constexpr std::array<Names, 3> kNames = {
      {{"L", "k"}, {"H, W", "kH, kW"}, {"D, H, W", "kD, kH, kW"}}};
  return kNames[static_cast<size_t>(axes - 1)];
}

bool all_in(const Dims& values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t v) { return v >= low && v <= high; });
}

void check_windows(const char* op, const ConvWindows& w) {
  check<ShapeError>(all_in(w.stride, 1, kMost), "{}: stride must be at least 1, got {}", op,
                    w.stride);
  check<ShapeError>(all_in(w.dilation, 1, kMost), "{}: dilation must be at least 1, got {}", op,
                    w.dilation);
  check<ShapeError>(all_in(w.before, 0, kMost) && all_in(w.after, 0, kMost),
                    "{}: padding must not be negative, got {} and {}", op, w.before, w.after);
}

void check_ranks(const char* op, const Shape& x, const Shape& weight, int axes,
                 const char* first_axes) {
  const Names& names = names_of(axes);
  check<ShapeError>(x.rank() == axes + 2, "{}: input must be [N, C_in, {}] or [C_in, {}], got {}",
                    op, names.input, names.input, x);
  check<ShapeError>(weight.rank() == axes + 2, "{}: weight must be [{}, {}], got {}", op,
                    first_axes, names.kernel, weight);
  check<ShapeError>(all_in(x, 0, kMost) && all_in(weight, 0, kMost),
                    "{}: sizes must be below 2^31, got {} and {}", op, x, weight);
  for (int i = 2; i < weight.rank(); ++i)
    check<ShapeError>(weight[i] >= 1, "{}: the kernel must not be empty, got a weight of {}", op,
                      weight);
}

constexpr const char* kWeight = "C_out, C_in/groups";
constexpr const char* kTransposedWeight = "C_in, C_out/groups";

}  // namespace

std::string by(const Dims& sizes) {
  std::string text;
  for (const int64_t s : sizes) text += (text.empty() ? "" : " by ") + std::to_string(s);
  return text;
}

template <class Size>
ConvWindows conv_windows(const char* op, const ConvOptions<Size>& options, const Shape& weight) {
  ConvWindows w{dims_of(options.stride), dims_of(options.padding.before),
                dims_of(options.padding.after), dims_of(options.dilation), options.groups};
  if (!options.padding.same_size) return w;
  check_windows(op, w);
  check<ShapeError>(options.stride == Size(1),
                    "{}: padding to the same size needs a stride of 1, got {}", op, w.stride);
  check<ShapeError>(weight.rank() == w.stride.rank() + 2, "{}: weight must be [{}, {}], got {}", op,
                    kWeight, names_of(w.stride.rank()).kernel, weight);
  for (int i = 0; i < w.stride.rank(); ++i) {
    check<ShapeError>(weight[i + 2] >= 1 && weight[i + 2] - 1 <= kMost / w.dilation[i],
                      "{}: a kernel of {} with a dilation of {} is too large", op, weight[i + 2],
                      w.dilation[i]);
    const int64_t total = w.dilation[i] * (weight[i + 2] - 1);
    w.before[i] = total / 2;
    w.after[i] = total - w.before[i];
  }
  return w;
}
template ConvWindows conv_windows(const char*, const ConvOptions<int64_t>&, const Shape&);
template ConvWindows conv_windows(const char*, const ConvOptions<Size2>&, const Shape&);
template ConvWindows conv_windows(const char*, const ConvOptions<Size3>&, const Shape&);

Shape conv_shape(const char* op, const Shape& x, const Shape& weight, const ConvWindows& w) {
  const int axes = w.stride.rank();
  check_ranks(op, x, weight, axes, kWeight);
  check_windows(op, w);
  check<ShapeError>(w.groups >= 1 && x[1] % w.groups == 0 && weight[0] % w.groups == 0,
                    "{}: groups must divide C_in = {} and C_out = {}, got {}", op, x[1], weight[0],
                    w.groups);
  check<ShapeError>(weight[1] == x[1] / w.groups,
                    "{}: weight must be [{}, {}] with C_in/groups = {}, got {}", op, kWeight,
                    names_of(axes).kernel, x[1] / w.groups, weight);
  Shape y = {x[0], weight[0]};
  bool fits = true;
  Dims reach = w.stride;
  Dims padded = w.stride;
  for (int i = 0; i < axes; ++i) {
    reach[i] = (weight[i + 2] - 1) * w.dilation[i] + 1;
    padded[i] = x[i + 2] + w.before[i] + w.after[i];
    fits = fits && reach[i] <= padded[i];
    y.push_back((padded[i] - reach[i]) / w.stride[i] + 1);
  }
  if (!fits)
    fail<ShapeError>("{}: kernel of {} does not fit the padded input of {}", op, by(reach),
                     by(padded));
  return y;
}

Shape conv_transpose_shape(const char* op, const Shape& x, const Shape& weight,
                           const ConvWindows& w, const Dims& output_padding) {
  const int axes = w.stride.rank();
  check_ranks(op, x, weight, axes, kTransposedWeight);
  check_windows(op, w);
  check<ShapeError>(w.groups >= 1 && x[1] % w.groups == 0,
                    "{}: groups must divide C_in = {}, got {}", op, x[1], w.groups);
  check<ShapeError>(weight[0] == x[1], "{}: weight must be [{}, {}] with C_in = {}, got {}", op,
                    kTransposedWeight, names_of(axes).kernel, x[1], weight);
  Shape y = {x[0], weight[1] * w.groups};
  for (int i = 0; i < axes; ++i) {
    check<ShapeError>(output_padding[i] >= 0 && output_padding[i] < w.stride[i],
                      "{}: output_padding must be in [0, stride) with stride = {}, got {}", op,
                      w.stride, output_padding);
    const int64_t size = (x[i + 2] - 1) * w.stride[i] + (weight[i + 2] - 1) * w.dilation[i] + 1 +
                         output_padding[i] - w.before[i] - w.after[i];
    check<ShapeError>(x[i + 2] >= 1 && size >= 1, "{}: an input of {} leaves no result", op, x);
    y.push_back(size);
  }
  return y;
}

void check_conv_operands(const char* op, const TensorSpec& x, const TensorSpec& weight,
                         const TensorSpec& bias, int64_t channels) {
  check<DTypeError>(kFloatDTypes.contains(x.dtype), "{}: expected {}, got {}", op,
                    kFloatDTypes.words(), x.dtype);
  check<DTypeError>(x.dtype == weight.dtype, "{}: operands must have one dtype, got {} and {}", op,
                    x.dtype, weight.dtype);
  if (!bias.defined) return;
  check<DTypeError>(x.dtype == bias.dtype, "{}: operands must have one dtype, got {} and {}", op,
                    x.dtype, bias.dtype);
  check<ShapeError>(bias.shape == Shape{channels},
                    "{}: bias must be [C_out] with C_out = {}, got {}", op, channels, bias.shape);
}

Tensor in_format_of(const TensorSpec& spec, const Tensor& cotangent, const Tensor& gradient) {
  const TensorSpec& dy = cotangent.spec();
  if (!spec.is_channels_last() || !dy.is_channels_last_dense() || !dy.is_contiguous())
    return gradient;
  return contiguous(gradient, MemoryFormat::channels_last);
}

Tensor pad_unevenly(const Tensor& x, ConvWindows& windows) {
  if (windows.before == windows.after) return x;
  Dims before = {0, 0};
  Dims after = {0, 0};
  for (int i = 0; i < windows.before.rank(); ++i) {
    const int64_t common = std::min(windows.before[i], windows.after[i]);
    before.push_back(windows.before[i] - common);
    after.push_back(windows.after[i] - common);
    windows.before[i] = windows.after[i] = common;
  }
  return pad(x, {.before = before, .after = after});
}

}  // namespace mica
