// Images at other resolutions and places.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/core/make_tensor.h"
#include "mica/io/image.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/grid_sample/grid_sample.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/upsample/upsample.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// A host tensor where the call computes.
Tensor placed(const Call& c, const Tensor& host, DType dtype) {
  const HostSection section;
  return to(cast(host, dtype), c.device());
}

/// How one axis is resized.
struct Resized {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

struct ResizeMode {
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic = -0.75;
  double outside = 0;
  bool exclude_outside = false;
  bool antialias = false;
};

/// Where pixel i of the result lies in the input; NaN where that is outside of what is asked for.
double source_of(const Call& c, const ResizeMode& m, const Resized& r, int64_t i) {
  const auto in = static_cast<double>(r.in);
  const double width = r.scale * in;
  const auto x = static_cast<double>(i);
  if (m.coordinates == "align_corners") return width == 1 ? 0 : x * (in - 1) / (width - 1);
  if (m.coordinates == "asymmetric") return x / r.scale;
  if (m.coordinates == "half_pixel") return (x + 0.5) / r.scale - 0.5;
  if (m.coordinates == "pytorch_half_pixel") return r.out == 1 ? -0.5 : (x + 0.5) / r.scale - 0.5;
  if (m.coordinates == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(r.out) / width;
    return in / 2 * (1 - adjustment) + (x + 0.5) / r.scale - 0.5;
  }
  if (m.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / r.scale;
  if (m.coordinates == "tf_crop_and_resize") {
    const double part = r.roi_end - r.roi_begin;
    const double at = (r.out == 1 ? part * (in - 1) / 2
                                  : x * part * (in - 1) / (static_cast<double>(r.out) - 1)) +
                      r.roi_begin * (in - 1);
    return at < 0 || at > in - 1 ? std::numeric_limits<double>::quiet_NaN() : at;
  }
  c.fail(fmt::format("coordinate_transformation_mode '{}'", m.coordinates));
}

int64_t nearest_of(const Call& c, const ResizeMode& m, double x) {
  if (m.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (m.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (m.nearest == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5));
  if (m.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  c.fail(fmt::format("nearest_mode '{}'", m.nearest));
}

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// Row i: what pixel i of the result takes of each of the input.
std::vector<double> weights_of(const Call& c, const ResizeMode& m, const Resized& r) {
  std::vector<double> weights(static_cast<size_t>(r.in * r.out), 0.0);
  const bool cubic = m.mode == "cubic";
  c.check(cubic || m.mode == "linear", "mode '{}'", m.mode);
  const double scale = m.antialias ? std::min(r.scale, 1.0) : 1;
  const double reach = (cubic ? 2 : 1) / scale;
  for (int64_t i = 0; i < r.out; ++i) {
    const double x = source_of(c, m, r, i);
    if (std::isnan(x)) continue;
    const auto first = static_cast<int64_t>(std::floor(x - reach)) + 1;
    const auto last = static_cast<int64_t>(std::ceil(x + reach)) - 1;
    double total = 0;
    double* const row = weights.data() + i * r.in;
    for (int64_t k = first; k <= last; ++k) {
      const double distance = (static_cast<double>(k) - x) * scale;
      const double w =
          cubic ? cubic_weight(distance, m.cubic) : std::max(0.0, 1 - std::abs(distance));
      if (m.exclude_outside && (k < 0 || k >= r.in)) continue;
      row[std::clamp<int64_t>(k, 0, r.in - 1)] += w;
      total += w;
    }
    if (m.exclude_outside || m.antialias)
      for (int64_t k = 0; k < r.in; ++k) row[k] /= total;
  }
  return weights;
}

Tensor resized(const Call& c, const ResizeMode& m, Tensor x, int axis, const Resized& r) {
  const bool crop = m.coordinates == "tf_crop_and_resize";
  if (m.mode == "nearest") {
    std::vector<int64_t> from;
    for (int64_t i = 0; i < r.out; ++i) {
      const double at = source_of(c, m, r, i);
      from.push_back(std::isnan(at) ? 0 : std::clamp<int64_t>(nearest_of(c, m, at), 0, r.in - 1));
    }
    x = index_select(x, axis, placed(c, tensor(from), DType::i64));
  } else {
    const DType dtype = x.dtype();
    const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor matrix = placed(c, tensor(weights_of(c, m, r), {r.out, r.in}), compute);
    const Tensor last = movedim(cast(x, compute), {axis}, {-1});
    Tensor y = movedim(matmul(last, transpose(matrix, 0, 1)), {-1}, {axis});
    if (!is_floating(dtype)) y = trunc(y);
    x = cast(y, dtype);
  }
  if (!crop) return x;
  std::vector<double> inside;
  for (int64_t i = 0; i < r.out; ++i) inside.push_back(std::isnan(source_of(c, m, r, i)) ? 0 : 1);
  if (std::ranges::find(inside, 0.0) == inside.end()) return x;
  Shape shape = Dims::filled(x.rank(), 1);
  shape[axis] = r.out;
  return where(reshape(placed(c, tensor(inside), DType::boolean), shape), x, m.outside);
}

/// mica's own operator, where it computes the same: the last two of four axes.
std::optional<Tensor> by_upsample(const ResizeMode& m, const Tensor& x,
                                  const std::vector<Resized>& axes) {
  if (x.rank() != 4 || !is_floating(x.dtype()) || m.antialias || m.exclude_outside) return {};
  if (axes[0].in != axes[0].out || axes[1].in != axes[1].out) return {};
  Upsample2dParams params;
  params.size = {axes[2].out, axes[3].out};
  const bool nearest = m.mode == "nearest" && m.coordinates == "asymmetric" && m.nearest == "floor";
  const bool halves = m.coordinates == "half_pixel" ||
                      (m.coordinates == "pytorch_half_pixel" && axes[2].out > 1 && axes[3].out > 1);
  const bool linear = m.mode == "linear" && (halves || m.coordinates == "align_corners");
  if (!nearest && !linear) return {};
  params.mode = nearest ? UpsampleMode::nearest : UpsampleMode::bilinear;
  params.align_corners = m.coordinates == "align_corners";
  if (params.align_corners &&
      (static_cast<double>(axes[2].out) != axes[2].scale * static_cast<double>(axes[2].in) ||
       static_cast<double>(axes[3].out) != axes[3].scale * static_cast<double>(axes[3].in)))
    return {};
  params.scale_h = axes[2].scale;
  params.scale_w = axes[3].scale;
  return upsample2d(x, params);
}

Tensor resize_all(const Call& c, const ResizeMode& m, const Tensor& x,
                  const std::vector<Resized>& axes) {
  if (const auto y = by_upsample(m, x, axes)) return *y;
  Tensor y = x;
  for (int i = 0; i < x.rank(); ++i) {
    const Resized& r = axes[static_cast<size_t>(i)];
    const bool same = r.in == r.out && r.scale == 1 && r.roi_begin == 0 && r.roi_end == 1;
    if (!same) y = resized(c, m, y, i, r);
  }
  return y;
}

Results resize(const Call& c) {
  const Tensor x = c[0];
  ResizeMode m;
  m.mode = c.text("mode", "nearest");
  m.coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  m.nearest = c.text("nearest_mode", "round_prefer_floor");
  m.cubic = c.number("cubic_coeff_a", -0.75);
  m.outside = c.number("extrapolation_value", 0);
  m.exclude_outside = c.integer("exclude_outside", 0) != 0;
  m.antialias = c.integer("antialias", 0) != 0;
  const bool old = c.opset() < 11;  // x and scales
  if (old) {
    m.coordinates = "asymmetric";
    m.nearest = "floor";
  }
  std::vector<int64_t> named = c.ints("axes");
  if (named.empty())
    for (int i = 0; i < x.rank(); ++i) named.push_back(i);
  const Dims at = axes_of(c, named, x.rank());
  std::vector<Resized> axes(static_cast<size_t>(x.rank()));
  for (int i = 0; i < x.rank(); ++i)
    axes[static_cast<size_t>(i)].in = axes[static_cast<size_t>(i)].out = x.shape()[i];
  const auto axis = [&](size_t k) -> Resized& {
    return axes[static_cast<size_t>(at[static_cast<int>(k)])];
  };
  std::vector<double> scales;
  const int scales_input = old ? 1 : 2;
  if (c.has(scales_input)) scales = c.numbers(scales_input);
  if (!scales.empty()) {
    c.check(scales.size() == named.size(), "{} scales for {} axes", scales.size(), named.size());
    for (size_t k = 0; k < scales.size(); ++k) {
      c.check(scales[k] > 0 && scales[k] < 1e6, "a scale of {}", scales[k]);
      axis(k).scale = scales[k];
      axis(k).out = static_cast<int64_t>(std::floor(static_cast<double>(axis(k).in) * scales[k]));
    }
  } else {
    const std::vector<int64_t> sizes = c.ints(3);
    c.check(sizes.size() == named.size(), "{} sizes for {} axes", sizes.size(), named.size());
    const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
    double common = 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
      c.check(axis(k).in > 0, "resizes {}", x.shape());
      const double scale = static_cast<double>(sizes[k]) / static_cast<double>(axis(k).in);
      axis(k).out = sizes[k];
      axis(k).scale = scale;
      if (k == 0) common = scale;
      common = policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
    if (policy != "stretch")
      for (size_t k = 0; k < sizes.size(); ++k) {
        axis(k).scale = common;
        axis(k).out =
            static_cast<int64_t>(std::floor(common * static_cast<double>(axis(k).in) + 0.5));
      }
  }
  if (m.coordinates == "tf_crop_and_resize" && c.has(1)) {
    const std::vector<double> roi = c.numbers(1);
    c.check(roi.size() == 2 * named.size(), "a region of {} numbers for {} axes", roi.size(),
            named.size());
    for (size_t k = 0; k < named.size(); ++k) {
      axis(k).roi_begin = roi[k];
      axis(k).roi_end = roi[named.size() + k];
    }
  }
  return resize_all(c, m, x, axes);
}

Results upsample_of(const Call& c) {
  const Tensor x = c[0];
  const std::vector<double> scales = c.has(1) ? c.numbers(1) : c.numbers("scales");
  c.check(static_cast<int>(scales.size()) == x.rank(), "{} scales for {}", scales.size(),
          x.shape());
  ResizeMode m;
  m.mode = c.text("mode", "nearest");
  if (m.mode == "bilinear") m.mode = "linear";
  m.coordinates = "asymmetric";
  m.nearest = "floor";
  std::vector<Resized> axes;
  for (int i = 0; i < x.rank(); ++i) {
    const double scale = scales[static_cast<size_t>(i)];
    c.check(scale > 0 && scale < 1e6, "a scale of {}", scale);
    const auto out = static_cast<int64_t>(std::floor(static_cast<double>(x.shape()[i]) * scale));
    axes.push_back({x.shape()[i], out, scale});
  }
  return resize_all(c, m, x, axes);
}

/// Coordinates from -1 to 1 of the middles of pixels, or of the corners' too.
std::vector<double> middles(int64_t n, bool align_corners) {
  std::vector<double> at;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(i);
    const auto size = static_cast<double>(n);
    if (align_corners) {
      at.push_back(n == 1 ? 0 : 2 * x / (size - 1) - 1);
    } else {
      at.push_back((2 * x + 1) / size - 1);
    }
  }
  return at;
}

Results affine_grid_of(const Call& c) {
  const Tensor theta = c[0];
  const std::vector<int64_t> size = c.ints(1);  // (N, C, …)
  const bool corners = c.integer("align_corners", 0) != 0;
  const auto axes = static_cast<int>(size.size()) - 2;
  c.check(axes == 2 || axes == 3, "a grid for images of {} axes", axes);
  Shape points;
  for (int i = 0; i < axes; ++i) points.push_back(size[static_cast<size_t>(i) + 2]);
  Tensors columns;
  for (int i = axes - 1; i >= 0; --i) {  // x first
    Shape shape = Dims::filled(axes, 1);
    shape[i] = points[i];
    columns.push_back(expand(
        reshape(placed(c, tensor(middles(points[i], corners)), theta.dtype()), shape), points));
  }
  columns.push_back(ones(points, {theta.dtype(), theta.device()}));
  const Tensor base = reshape(stack(columns, axes), {1, numel(points), axes + 1});
  const Tensor grid = matmul(base, transpose(theta, 1, 2));
  Shape shape = {theta.shape()[0]};
  for (const int64_t n : points) shape.push_back(n);
  shape.push_back(axes);
  return reshape(grid, shape);
}

/// A coordinate of pixels brought back into the image as a padding says.
Tensor within(const Tensor& x, int64_t size, const std::string& padding, bool corners) {
  const auto last = static_cast<double>(size - 1);
  if (padding == "border") return clamp(x, Number(0.0), Number(last));
  if (padding != "reflection") return x;
  const double low = corners ? 0 : -0.5;
  const double span = corners ? last : static_cast<double>(size);
  if (span <= 0) return mul(x, 0);
  const Tensor at = abs(sub(x, low));
  const Tensor rest = remainder(at, 2 * span);
  const Tensor folded = where(gt(rest, span), sub(2 * span, rest), rest);
  return clamp(add(folded, low), Number(0.0), Number(last));
}

/// x (N, C, D, H, W) at grid (N, …, 3), whose last axis is x, y, z.
Tensor sample_volume(const Call& c, const Tensor& x, const Tensor& grid, const std::string& mode,
                     const std::string& padding, bool corners) {
  const int64_t n = x.shape()[0];
  const Shape out = grid.shape();
  const Tensor points = reshape(grid, {n, 1, -1, 3});
  Tensors at;  // of z, y, x in pixels
  for (int i = 0; i < 3; ++i) {
    const auto size = static_cast<double>(x.shape()[i + 2]);
    const Tensor g = select(points, 3, 2 - i);
    const Tensor pixel =
        corners ? mul(add(g, 1), (size - 1) / 2) : sub(mul(add(g, 1), size / 2), 0.5);
    at.push_back(within(pixel, x.shape()[i + 2], padding, corners));
  }
  const Tensor flat = flatten(x, 2);
  const bool nearest = mode == "nearest";
  c.check(nearest || mode == "linear" || mode == "bilinear", "mode '{}' of volumes", mode);
  Tensor result;
  for (int corner = 0; corner < (nearest ? 1 : 8); ++corner) {
    Tensor place;
    Tensor weight;
    Tensor inside;
    for (int i = 0; i < 3; ++i) {
      const int64_t size = x.shape()[i + 2];
      const Tensor& p = at[static_cast<size_t>(i)];
      const Tensor k = nearest ? round(p) : add(floor(p), (corner >> i) & 1);
      const Tensor here = logical_and(ge(k, 0), lt(k, size));
      inside = inside.defined() ? logical_and(inside, here) : here;
      if (!nearest) {
        const Tensor w = sub(1, abs(sub(p, k)));
        weight = weight.defined() ? mul(weight, w) : w;
      }
      const Tensor index =
          cast(clamp(k, Number(0.0), Number(static_cast<double>(size - 1))), DType::i64);
      place = place.defined() ? add(mul(place, size), index) : index;
    }
    Shape shape = place.shape();
    shape[1] = flat.shape()[1];
    const Tensor values = gather(flat, 2, contiguous(expand(place, shape)));
    const Tensor kept = where(inside, nearest ? values : mul(values, weight), 0.0);
    result = result.defined() ? add(result, kept) : kept;
  }
  return reshape(result, {n, x.shape()[1], out[1], out[2], out[3]});
}

Results grid_sample_of(const Call& c) {
  const Tensor x = c[0];
  const Tensor grid = c[1];
  const std::string mode = c.text("mode", c.opset() < 20 ? "bilinear" : "linear");
  const std::string padding = c.text("padding_mode", "zeros");
  const bool corners = c.integer("align_corners", 0) != 0;
  if (x.rank() == 5) return sample_volume(c, x, grid, mode, padding, corners);
  GridSampleParams params;
  params.align_corners = corners;
  if (mode == "nearest") params.mode = GridMode::nearest;
  if (mode == "cubic" || mode == "bicubic") params.mode = GridMode::bicubic;
  if (padding == "border") params.padding = GridPadding::border;
  if (padding == "reflection") params.padding = GridPadding::reflection;
  return grid_sample(x, grid, params);
}

/// The bytes of a PNG or JPEG file as pixels (H, W, C).
Results image_decoder(const Call& c) {
  const std::vector<int64_t> values = c.ints(0);
  std::vector<std::byte> bytes;
  bytes.reserve(values.size());
  for (const int64_t v : values) bytes.push_back(static_cast<std::byte>(v));
  const HostSection host;
  Tensor image = io::decode_image(bytes, "ImageDecoder");  // (C, H, W)
  const std::string format = c.text("pixel_format", "RGB");
  const bool gray = image.shape()[0] < 3;
  if (format == "Grayscale") {
    if (!gray) {
      const Tensor wide = cast(image, DType::f32);
      const auto part = [&](int64_t k, double weight) { return mul(select(wide, 0, k), weight); };
      const Tensor luma = add(add(part(0, 0.299), part(1, 0.587)), part(2, 0.114));
      image = unsqueeze(cast(round(luma), DType::u8), 0);
    } else {
      image = slice(image, 0, 0, 1);
    }
  } else {
    image = gray ? concat({slice(image, 0, 0, 1), slice(image, 0, 0, 1), slice(image, 0, 0, 1)})
                 : slice(image, 0, 0, 3);
    if (format == "BGR") image = flip(image, {0});
    c.check(format == "RGB" || format == "BGR", "pixel_format '{}'", format);
  }
  return to(contiguous(permute(image, {1, 2, 0})), c.device());
}

}  // namespace

Operators image_operators() {
  return {
      {"ImageDecoder", image_decoder}, {"Resize", resize},
      {"Upsample", upsample_of},       {"AffineGrid", affine_grid_of},
      {"GridSample", grid_sample_of},
  };
}

}  // namespace mica::onnx
