// Poolings.
#include "mica/ops/pool/pool.h"

#include <algorithm>
#include <limits>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/onnx/windows.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

Number lowest(DType dtype) {
  if (is_floating(dtype)) return -std::numeric_limits<double>::infinity();
  return integer_limits(dtype).lowest;
}

/// Windows over x, with what stands around it, as a row of tensors: place k of every window.
class Places {
 public:
  Places(const Windows& windows, const Shape& x, bool ceil) : w_(windows) {
    for (size_t i = 0; i < w_.rank(); ++i) {
      const int64_t size = x[static_cast<int>(i) + 2];
      counts.push_back(w_.count(i, size, ceil));
      const int64_t reach = (counts.back() - 1) * w_.stride[i] + w_.extent(i);
      past.push_back(std::max<int64_t>(0, reach - (size + w_.before[i] + w_.after[i])));
      total *= w_.kernel[i];
    }
  }
  Tensor padded(const Tensor& x, Number value) const {
    PadParams params;
    params.before = params.after = Dims::filled(x.rank(), 0);
    params.value = value;
    for (size_t i = 0; i < w_.rank(); ++i) {
      params.before[static_cast<int>(i) + 2] = w_.before[i];
      params.after[static_cast<int>(i) + 2] = w_.after[i] + past[i];
    }
    return pad(x, params);
  }
  Tensor place(const Tensor& padded, int64_t k) const {
    Tensor y = padded;
    for (size_t i = w_.rank(); i-- > 0;) {
      const int64_t begin = k % w_.kernel[i] * w_.dilation[i];
      k /= w_.kernel[i];
      y = slice(y, static_cast<int64_t>(i) + 2, begin, begin + (counts[i] - 1) * w_.stride[i] + 1,
                w_.stride[i]);
    }
    return y;
  }

  std::vector<int64_t> counts, past;
  int64_t total = 1;

 private:
  const Windows& w_;
};

template <class Options, class Size>
Options max_options(const Windows& w, Size size, bool ceil) {
  return {.kernel = size(w.kernel),
          .stride = size(w.stride),
          .padding = size(w.before),
          .dilation = size(w.dilation),
          .ceil_mode = ceil};
}
template <class Options, class Size>
Options avg_options(const Windows& w, Size size, bool ceil, bool include) {
  return {.kernel = size(w.kernel),
          .stride = size(w.stride),
          .padding = size(w.before),
          .ceil_mode = ceil,
          .count_include_pad = include};
}
using Ints = std::vector<int64_t>;
int64_t one(const Ints& v) { return v[0]; }
Size2 two(const Ints& v) { return {v[0], v[1]}; }
Size3 three(const Ints& v) { return {v[0], v[1], v[2]}; }

/// Whether mica's own pooling takes these windows.
bool is_plain(const Windows& w) {
  bool plain = w.is_symmetric() && w.rank() <= 3;
  for (size_t i = 0; i < w.rank(); ++i) plain = plain && 2 * w.before[i] <= w.kernel[i];
  return plain;
}

Tensor max_pool_of(const Tensor& x, const Windows& w, bool ceil) {
  if (w.rank() == 1) return max_pool1d(x, max_options<MaxPoolOptions<int64_t>>(w, one, ceil));
  if (w.rank() == 2) return max_pool2d(x, max_options<MaxPool2dParams>(w, two, ceil));
  return max_pool3d(x, max_options<MaxPoolOptions<Size3>>(w, three, ceil));
}

Results max_pool(const Call& c) {
  const Tensor x = c[0];
  const Windows w = Windows::of(c, x.shape(), c.ints("kernel_shape"));
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  if (!c.wants(1) && is_plain(w) && is_floating(x.dtype())) return max_pool_of(x, w, ceil);
  const Places places(w, x.shape(), ceil);
  const Tensor around = places.padded(x, lowest(x.dtype()));
  if (!c.wants(1) && w.rank() <= 3 && is_floating(x.dtype())) {
    Windows within = w;
    within.before = within.after = std::vector<int64_t>(w.rank());
    return max_pool_of(around, within, false);
  }
  Tensor best = places.place(around, 0);
  if (!c.wants(1)) {
    for (int64_t k = 1; k < places.total; ++k) best = maximum(best, places.place(around, k));
    return best;
  }
  // Positions in all of x, row-major or with the last axis first.
  Shape shape = x.shape();
  Tensor index;
  const TensorOptions whole{DType::i64, c.device()};
  if (c.integer("storage_order", 0) == 0) {
    index = reshape(arange(x.numel(), whole), shape);
  } else {
    Shape turned = {shape[0] * shape[1]};
    Dims order = {0};
    for (int i = shape.rank() - 1; i >= 2; --i) {
      turned.push_back(shape[i]);
      order.push_back(shape.rank() - i);
    }
    for (int i = 1; i < order.rank(); ++i) order[i] = order.rank() - i;
    index = reshape(permute(reshape(arange(x.numel(), whole), turned), order), shape);
  }
  const Tensor indices = places.padded(index, -1);
  Tensor at = places.place(indices, 0);
  for (int64_t k = 1; k < places.total; ++k) {
    const Tensor value = places.place(around, k);
    const Tensor i = places.place(indices, k);
    // What lies outside never wins, not even against the lowest number.
    const Tensor better = logical_and(ge(i, 0), logical_or(gt(value, best), lt(at, 0)));
    best = where(better, value, best);
    at = where(better, i, at);
  }
  return {best, at};
}

/// Sums over windows.
Tensor window_sum(const Tensor& x, const Places& places) {
  const Tensor around = places.padded(x, 0);
  Tensor sum = places.place(around, 0);
  for (int64_t k = 1; k < places.total; ++k) sum = add(sum, places.place(around, k));
  return sum;
}

/// How many elements of each window count, for one axis.
std::vector<double> counted(const Windows& w, size_t i, int64_t size, int64_t windows,
                            bool include) {
  std::vector<double> counts;
  for (int64_t n = 0; n < windows; ++n) {
    int64_t inside = 0;
    for (int64_t k = 0; k < w.kernel[i]; ++k) {
      const int64_t at = n * w.stride[i] - w.before[i] + k * w.dilation[i];
      const int64_t low = include ? -w.before[i] : 0;
      const int64_t high = include ? size + w.after[i] : size;
      inside += at >= low && at < high ? 1 : 0;
    }
    counts.push_back(static_cast<double>(inside));
  }
  return counts;
}

Results average_pool(const Call& c) {
  const Tensor x = c[0];
  const Windows w = Windows::of(c, x.shape(), c.ints("kernel_shape"));
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  const bool include = c.integer("count_include_pad", 0) != 0;
  if (is_plain(w) && std::ranges::all_of(w.dilation, [](int64_t d) { return d == 1; })) {
    if (w.rank() == 1)
      return avg_pool1d(x, avg_options<AvgPoolOptions<int64_t>>(w, one, ceil, include));
    if (w.rank() == 2) return avg_pool2d(x, avg_options<AvgPool2dParams>(w, two, ceil, include));
    return avg_pool3d(x, avg_options<AvgPoolOptions<Size3>>(w, three, ceil, include));
  }
  const Places places(w, x.shape(), ceil);
  Tensor mean = window_sum(x, places);
  for (size_t i = 0; i < w.rank(); ++i) {
    const std::vector<double> counts =
        counted(w, i, x.shape()[static_cast<int>(i) + 2], places.counts[i], include);
    Shape shape = Dims::filled(x.rank(), 1);
    shape[static_cast<int>(i) + 2] = places.counts[i];
    Tensor divisor;
    {
      const HostSection host;
      divisor = to(cast(tensor(counts, shape), x.dtype()), x.device());
    }
    mean = div(mean, divisor);
  }
  return mean;
}

Results lp_pool(const Call& c) {
  const Tensor x = c[0];
  const Windows w = Windows::of(c, x.shape(), c.ints("kernel_shape"));
  const Places places(w, x.shape(), c.integer("ceil_mode", 0) != 0);
  const AttributeProto* const attribute = c.find("p");
  double p = 2;  // a number in version 1
  if (attribute)
    p = attribute->type == AttributeType::int_ ? static_cast<double>(attribute->i)
                                               : static_cast<double>(attribute->f);
  if (p == 2) return sqrt(window_sum(square(x), places));
  if (p == 1) return window_sum(abs(x), places);
  return pow(window_sum(pow(abs(x), p), places), 1 / p);
}

Dims image_axes(const Tensor& x) {
  Dims axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

Results global_average(const Call& c) {
  const Tensor x = c[0];
  if (x.rank() == 4) return adaptive_avg_pool2d(x, 1);
  return x.rank() < 3 ? x : mean(x, image_axes(x), true);
}
Results global_max(const Call& c) {
  const Tensor x = c[0];
  return x.rank() < 3 ? x : max(x, image_axes(x), true);
}
Results global_lp(const Call& c) {
  const Tensor x = c[0];
  return norm(x, static_cast<double>(c.integer("p", 2)), image_axes(x), true);
}

Results max_unpool(const Call& c) {
  const Tensor x = c[0];
  const Tensor index = cast(c[1], DType::i64);
  const Windows w = Windows::of(c, x.shape(), c.ints("kernel_shape"));
  Shape shape = x.shape();
  for (size_t i = 0; i < w.rank(); ++i)
    shape[static_cast<int>(i) + 2] = (x.shape()[static_cast<int>(i) + 2] - 1) * w.stride[i] -
                                     w.before[i] - w.after[i] + w.extent(i);
  // Positions count in the tensor that was pooled, whose size the paddings may have changed.
  Shape result = shape;
  if (c.has(2)) result = Shape(c.ints(2));
  const Tensor pooled = reshape(scatter(zeros({numel(shape)}, {x.dtype(), x.device()}), 0,
                                        reshape(index, {-1}), reshape(x, {-1})),
                                shape);
  PadParams more;
  more.before = Dims::filled(x.rank(), 0);
  more.after = Dims::filled(x.rank(), 0);
  for (int i = 0; i < x.rank(); ++i) more.after[i] = result[i] - shape[i];
  return pad(pooled, more);
}

}  // namespace

Operators pooling_operators() {
  return {
      {"MaxPool", max_pool},         {"AveragePool", average_pool},
      {"LpPool", lp_pool},           {"GlobalAveragePool", global_average},
      {"GlobalMaxPool", global_max}, {"GlobalLpPool", global_lp},
      {"MaxUnpool", max_unpool},
  };
}

}  // namespace mica::onnx
