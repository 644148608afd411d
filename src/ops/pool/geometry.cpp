#include "mica/ops/pool/geometry.h"

#include <algorithm>
#include <limits>

#include "mica/core/check.h"
#include "mica/ops/conv/shape.h"

namespace mica {
namespace {

// Sizes up to here can be multiplied with one another.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

bool all_in(const Dims& values, int64_t low, int64_t high) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t v) { return v >= low && v <= high; });
}

void check_input(const char* op, const Shape& x, int axes) {
  constexpr const char* kNames[] = {"L", "H, W", "D, H, W"};
  check<ShapeError>(x.rank() == axes + 2, "{}: input must be [N, C, {}] or [C, {}], got {}", op,
                    kNames[axes - 1], kNames[axes - 1], x);
  int64_t positions = 1;
  bool fits = true;
  for (int i = 2; i < x.rank(); ++i) {
    fits = fits && x[i] >= 1 && x[i] <= kMost / positions;
    positions *= fits ? x[i] : 1;
  }
  check<ShapeError>(fits, "{}: an image must have between 1 and 2^31 - 1 positions, got {}", op, x);
}

}  // namespace

Shape pool_shape(const char* op, const Shape& x, const PoolWindows& w) {
  const int axes = w.kernel.rank();
  check_input(op, x, axes);
  check<ShapeError>(all_in(w.kernel, 1, kMost), "{}: kernel must be at least 1, got {}", op,
                    w.kernel);
  check<ShapeError>(all_in(w.stride, 0, kMost), "{}: stride must not be negative, got {}", op,
                    w.stride);
  check<ShapeError>(all_in(w.dilation, 1, kMost), "{}: dilation must be at least 1, got {}", op,
                    w.dilation);
  Shape y = {x[0], x[1]};
  bool fits = true;
  Dims reach = w.kernel;
  Dims padded = w.kernel;
  for (int i = 0; i < axes; ++i) {
    const int64_t size = x[i + 2];
    const int64_t padding = w.padding[i];
    reach[i] = (w.kernel[i] - 1) * w.dilation[i] + 1;
    check<ShapeError>(padding >= 0 && padding <= reach[i] / 2,
                      "{}: padding must be in [0, kernel / 2] with kernel = {}, got {}", op,
                      w.kernel, w.padding);
    check<ShapeError>(padding == 0 || w.dilation[i] <= size,
                      "{}: a padded image of {} needs a dilation of at most its size, got {}", op,
                      x, w.dilation);
    padded[i] = size + 2 * padding;
    fits = fits && reach[i] <= padded[i];
    const int64_t stride = w.stride[i] == 0 ? w.kernel[i] : w.stride[i];
    const int64_t room = padded[i] - reach[i];
    int64_t outputs = (room + (w.ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (w.ceil_mode && (outputs - 1) * stride >= size + padding) --outputs;  // in the padding
    y.push_back(outputs);
  }
  if (!fits)
    fail<ShapeError>("{}: kernel of {} does not fit the padded input of {}", op, by(reach),
                     by(padded));
  return y;
}

Shape adaptive_pool_shape(const char* op, const Shape& x, const Dims& output) {
  check_input(op, x, output.rank());
  check<ShapeError>(all_in(output, 1, kMost), "{}: output must be at least 1, got {}", op, output);
  Shape y = {x[0], x[1]};
  for (const int64_t size : output) y.push_back(size);
  return y;
}

Pool2dGeometry pool2d_geometry(const char* op, const Shape& x, const PoolWindows& windows) {
  const Shape y = pool_shape(op, x, windows);
  Pool2dGeometry g;
  g.n = x[0];
  g.c = x[1];
  g.h = x[2];
  g.w = x[3];
  g.oh = y[2];
  g.ow = y[3];
  g.kernel = {windows.kernel[0], windows.kernel[1]};
  g.stride = {windows.stride[0] == 0 ? g.kernel.h : windows.stride[0],
              windows.stride[1] == 0 ? g.kernel.w : windows.stride[1]};
  g.padding = {windows.padding[0], windows.padding[1]};
  g.dilation = {windows.dilation[0], windows.dilation[1]};
  return g;
}

Pool2dGeometry adaptive_pool2d_geometry(const char* op, const Shape& x, Size2 output) {
  adaptive_pool_shape(op, x, dims_of(output));
  Pool2dGeometry g;
  g.n = x[0];
  g.c = x[1];
  g.h = x[2];
  g.w = x[3];
  g.oh = output.h;
  g.ow = output.w;
  g.adaptive = g.h % g.oh != 0 || g.w % g.ow != 0;
  if (!g.adaptive) g.stride = g.kernel = {g.h / g.oh, g.w / g.ow};
  return g;
}

}  // namespace mica
