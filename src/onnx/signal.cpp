// Fourier transforms and windows.
#include <cmath>
#include <numbers>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/pad/pad.h"

namespace mica::onnx {
namespace {

using std::numbers::pi;

Tensor placed(const Call& c, const Tensor& host, DType dtype) {
  const HostSection section;
  return to(cast(host, dtype), c.device());
}

/// Longest transform that is made as a product of matrices.
constexpr int64_t kLongest = 16384;

/// cos and sin of 2π i k / n, (rows, columns).
std::pair<Tensor, Tensor> waves(const Call& c, int64_t rows, int64_t columns, int64_t n,
                                DType dtype) {
  c.check(rows <= kLongest && columns <= kLongest, "a transform of {} values", n);
  std::vector<double> cosine;
  std::vector<double> sine;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k) {
      const double angle = 2 * pi * static_cast<double>(i * k % n) / static_cast<double>(n);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  return {placed(c, tensor(cosine, {rows, columns}), dtype),
          placed(c, tensor(sine, {rows, columns}), dtype)};
}

/// The axis with n elements: cut, or with zeros at its end.
Tensor with_length(const Tensor& x, int64_t axis, int64_t n) {
  const int64_t size = x.shape()[static_cast<int>(axis)];
  if (size >= n) return slice(x, axis, 0, n);
  PadParams more;
  more.before = more.after = Dims::filled(x.rank(), 0);
  more.after[static_cast<int>(axis)] = n - size;
  return pad(x, more);
}

/// x (…, 1 or 2) along an axis before the last: real and imaginary parts as the last.
Tensor transform(const Call& c, const Tensor& x, int64_t axis, int64_t n, bool inverse,
                 bool onesided) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const bool is_complex = x.shape().back() == 2;
  if (inverse && onesided) {  // of half a spectrum, whose other half mirrors it: a real signal
    const int64_t half = n / 2 + 1;
    const Tensor moved = movedim(cast(with_length(x, axis, half), dtype), {axis}, {-2});
    const auto [cosine, sine] = waves(c, half, n, n, dtype);
    std::vector<double> times;
    for (int64_t k = 0; k < half; ++k) times.push_back(k == 0 || 2 * k == n ? 1 : 2);
    const Tensor weight = div(placed(c, tensor(times), dtype), static_cast<double>(n));
    const Tensor real = mul(select(moved, -1, 0), weight);
    Tensor y = matmul(real, cosine);
    if (is_complex) y = sub(y, matmul(mul(select(moved, -1, 1), weight), sine));
    return cast(movedim(unsqueeze(y, -1), {-2}, {axis}), x.dtype());
  }
  const Tensor moved = movedim(cast(with_length(x, axis, n), dtype), {axis}, {-2});
  const int64_t kept = onesided ? n / 2 + 1 : n;
  const auto [cosine, sine] = waves(c, n, kept, n, dtype);
  const Tensor real = select(moved, -1, 0);
  Tensor re = matmul(real, cosine);
  Tensor im = matmul(real, inverse ? sine : neg(sine));
  if (is_complex) {
    const Tensor imaginary = select(moved, -1, 1);
    re = add(re, matmul(imaginary, inverse ? neg(sine) : sine));
    im = add(im, matmul(imaginary, cosine));
  }
  Tensor y = stack({re, im}, -1);
  if (inverse) y = div(y, static_cast<double>(n));
  return cast(movedim(y, {-2}, {axis}), x.dtype());
}

Results dft(const Call& c) {
  const Tensor x = c[0];
  int64_t axis = c.opset() < 20 ? c.integer("axis", 1) : (c.has(2) ? c.integer(2) : -2);
  axis = axis_of(c, axis, x.rank());
  c.check(axis < x.rank() - 1 && (x.shape().back() == 1 || x.shape().back() == 2),
          "a transform of {} along axis {}", x.shape(), axis);
  const bool inverse = c.integer("inverse", 0) != 0;
  const bool onesided = c.integer("onesided", 0) != 0;
  const int64_t size = x.shape()[static_cast<int>(axis)];
  int64_t n = inverse && onesided ? 2 * (size - 1) : size;
  if (c.has(1)) n = c.integer(1);
  c.check(n > 0, "a transform of {} values", n);
  return transform(c, x, axis, n, inverse, onesided);
}

Results stft(const Call& c) {
  Tensor x = c[0];  // (B, L, 1 or 2)
  if (x.rank() == 2) x = unsqueeze(x, -1);
  const int64_t step = c.integer(1);
  const Tensor window = c.maybe(2);
  int64_t length = x.shape()[1];
  if (window.defined()) length = window.numel();
  if (c.has(3)) length = c.integer(3);
  c.check(step > 0 && length > 0 && length <= x.shape()[1], "frames of {} every {} of {}", length,
          step, x.shape());
  const int64_t frames = 1 + (x.shape()[1] - length) / step;
  std::vector<int64_t> at;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i) at.push_back(f * step + i);
  Tensor parts = reshape(index_select(x, 1, placed(c, tensor(at), DType::i64)),
                         {x.shape()[0], frames, length, x.shape()[2]});
  if (window.defined()) parts = mul(parts, reshape(window, {-1, 1}));
  return transform(c, parts, 2, length, false, c.integer("onesided", 1) != 0);
}

/// a - b cos(2π i / n) + d cos(4π i / n).
Results window(const Call& c, double a, double b, double d) {
  const int64_t size = c.integer(0);
  c.check(size >= 0 && size < int64_t{1} << 32, "a window of {}", size);
  const bool periodic = c.integer("periodic", 1) != 0;
  const auto n = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * pi * static_cast<double>(i) / n;
    values.push_back(a - b * std::cos(angle) + d * std::cos(2 * angle));
  }
  return placed(c, tensor(values), c.dtype("output_datatype", DType::f32));
}

Results mel_weights(const Call& c) {
  const int64_t bins = c.integer(0);
  const int64_t length = c.integer(1);
  const double rate = c.number(2);
  c.check(bins > 0 && bins < 65536 && length > 0 && length < 1 << 24, "{} bins of {} values", bins,
          length);
  const int64_t rows = length / 2 + 1;
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(c.number(3));
  const double step = (mel(c.number(4)) - low) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate)));
  }
  std::vector<double> weights(static_cast<size_t>(rows * bins), 0.0);
  const auto set = [&](int64_t row, int64_t column, double value) {
    if (row >= 0 && row < rows) weights[static_cast<size_t>(row * bins + column)] = value;
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t begin = edges[static_cast<size_t>(i)];
    const int64_t middle = edges[static_cast<size_t>(i) + 1];
    const int64_t end = edges[static_cast<size_t>(i) + 2];
    if (begin == middle) set(middle, i, 1);
    for (int64_t j = begin; j <= middle && middle > begin; ++j)
      set(j, i, static_cast<double>(j - begin) / static_cast<double>(middle - begin));
    for (int64_t j = middle; j < end; ++j)
      set(j, i, static_cast<double>(end - j) / static_cast<double>(end - middle));
  }
  return placed(c, tensor(weights, {rows, bins}), c.dtype("output_datatype", DType::f32));
}

}  // namespace

Operators signal_operators() {
  return {
      {"DFT", dft},
      {"STFT", stft},
      {"HannWindow", [](const Call& c) { return window(c, 0.5, 0.5, 0); }},
      {"HammingWindow", [](const Call& c) { return window(c, 25.0 / 46.0, 21.0 / 46.0, 0); }},
      {"BlackmanWindow", [](const Call& c) { return window(c, 0.42, 0.5, 0.08); }},
      {"MelWeightMatrix", mel_weights},
  };
}

}  // namespace mica::onnx
