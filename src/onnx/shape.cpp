// Shapes: what they are, and tensors in other ones.
#include <algorithm>
#include <numeric>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/repeat/repeat.h"
#include "mica/ops/triangle/triangle.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// On the CPU, known whatever the input is.
Results known_ints(const std::vector<int64_t>& values, const Shape& shape) {
  const HostSection host;
  Results results(tensor(values, shape));
  results.known = true;
  return results;
}

Results shape_of(const Call& c) {
  const Shape shape = c[0].shape();
  const int64_t rank = shape.rank();
  const auto cut = [&](int64_t at) {
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t begin = cut(c.integer("start", 0));
  const int64_t end = cut(c.integer("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = begin; i < end; ++i) sizes.push_back(shape[static_cast<int>(i)]);
  return known_ints(sizes, {static_cast<int64_t>(sizes.size())});
}

Results reshape_of(const Call& c) {
  const Tensor x = c[0];
  std::vector<int64_t> sizes = c.inputs() > 1 ? c.ints(1) : c.ints("shape");
  c.check(sizes.size() <= Dims::kMaxRank, "a shape of {} axes; a tensor has at most {}",
          sizes.size(), Dims::kMaxRank);
  if (c.integer("allowzero", 0) == 0)
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) {
        c.check(static_cast<int>(i) < x.rank(), "size {} of the shape is copied from {}", i,
                x.shape());
        sizes[i] = x.shape()[static_cast<int>(i)];
      }
  return reshape(x, Shape(sizes));
}

Results flatten_of(const Call& c) {
  const Tensor x = c[0];
  int64_t axis = c.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  c.check(axis >= 0 && axis <= x.rank(), "axis {} of {}", axis, x.shape());
  int64_t rows = 1;
  int64_t columns = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) *= x.shape()[i];
  return reshape(x, {rows, columns});
}

Results transpose_of(const Call& c) {
  const Tensor x = c[0];
  std::vector<int64_t> order = c.ints("perm");
  if (order.empty()) {
    order.resize(static_cast<size_t>(x.rank()));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  return permute(x, axes_of(c, order, x.rank()));
}

Results squeeze_of(const Call& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> axes = c.has(1) ? c.ints(1) : c.ints("axes");
  const Dims positive = axes_of(c, axes, x.rank());
  for (const int64_t axis : positive)
    c.check(x.shape()[static_cast<int>(axis)] == 1, "axis {} of {} is not 1", axis, x.shape());
  if (positive.empty() && (c.has(1) || c.has("axes"))) return x;
  return squeeze(x, positive);
}

Results unsqueeze_of(const Call& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> axes = c.inputs() > 1 ? c.ints(1) : c.ints("axes");
  const int rank = x.rank() + static_cast<int>(axes.size());
  c.check(rank <= Dims::kMaxRank, "{} axes; a tensor has at most {}", rank, Dims::kMaxRank);
  const Dims at = axes_of(c, axes, rank);
  Shape shape;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    const bool is_new = at.contains(i);
    c.check(is_new || next < x.rank(), "axes name an axis twice");
    shape.push_back(is_new ? 1 : x.shape()[next++]);
  }
  return reshape(x, shape);
}

Results expand_of(const Call& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> sizes = c.ints(1);
  c.check(sizes.size() <= Dims::kMaxRank, "a shape of {} axes; a tensor has at most {}",
          sizes.size(), Dims::kMaxRank);
  return expand(x, broadcast_shapes(x.shape(), Shape(sizes), "Expand"));
}

Results tile_of(const Call& c) {
  const Tensor x = c[0];
  if (c.opset() < 6) {  // how often, and along which axis
    Dims times = Dims::filled(x.rank(), 1);
    times[static_cast<int>(axis_of(c, c.integer(2), x.rank()))] = c.integer(1);
    return tile(x, times);
  }
  return tile(x, Dims(c.ints(1)));
}

Results concat_of(const Call& c) {
  const Tensors parts = c.all();
  const int64_t axis = c.integer("axis", 1);
  return concat(parts, axis_of(c, axis, parts[0].rank()));
}

Results split_of(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  std::vector<int64_t> sizes = c.has(1) ? c.ints(1) : c.ints("split");
  const int64_t size = x.shape()[static_cast<int>(axis)];
  if (sizes.empty()) {
    const int64_t parts = c.integer("num_outputs", c.outputs());
    c.check(parts > 0, "splits into {} parts", parts);
    const int64_t each = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::max<int64_t>(0, std::min(each, size - i * each)));
  }
  return split(x, sizes, axis);
}

Results slice_of(const Call& c) {
  Tensor x = c[0];
  const bool by_inputs = c.inputs() > 1;
  const std::vector<int64_t> starts = by_inputs ? c.ints(1) : c.ints("starts");
  const std::vector<int64_t> ends = by_inputs ? c.ints(2) : c.ints("ends");
  std::vector<int64_t> axes;
  if (!by_inputs || c.has(3)) axes = by_inputs ? c.ints(3) : c.ints("axes");
  std::vector<int64_t> steps;
  if (by_inputs && c.has(4)) steps = c.ints(4);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.resize(starts.size(), 1);
  c.check(
      starts.size() == ends.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "{} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
      steps.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axis_of(c, axes[i], x.rank());
    const int64_t n = x.shape()[static_cast<int>(axis)];
    // As NumPy cuts them, so that no index overflows on its way.
    const auto cut = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? (at < -n ? -1 : at + n) : at, low, high);
    };
    c.check(steps[i] != 0, "a step of 0");
    if (steps[i] > 0) {
      const int64_t begin = cut(starts[i], 0, n);
      x = slice(x, axis, begin, std::max(begin, cut(ends[i], 0, n)),
                std::min(steps[i], std::max<int64_t>(n, 1)));
      continue;
    }
    const int64_t begin = cut(starts[i], -1, n - 1);
    const int64_t end = cut(ends[i], -1, n - 1);
    const int64_t step = std::min(steps[i] == INT64_MIN ? n + 1 : -steps[i], n + 1);
    if (begin <= end || n == 0) {
      x = slice(x, axis, 0, 0);
    } else {
      x = slice(flip(slice(x, axis, end + 1, begin + 1), {axis}), axis, 0, begin - end, step);
    }
  }
  return x;
}

Results pad_of(const Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> pads;
  if (c.opset() < 2) {
    pads = c.ints("paddings");
  } else {
    pads = c.opset() < 11 ? c.ints("pads") : c.ints(1);
  }
  Dims axes;
  if (c.has(3)) {
    axes = axes_of(c, c.ints(3), x.rank());
  } else {
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  const auto n = static_cast<size_t>(axes.rank());
  c.check(pads.size() == 2 * n, "{} paddings of {} axes", pads.size(), n);
  PadParams params;
  params.before = params.after = Dims::filled(x.rank(), 0);
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int>(axes[static_cast<int>(i)]);
    params.before[axis] = pads[i];
    params.after[axis] = pads[n + i];
    // Less than nothing takes elements away.
    const int64_t size = x.shape()[axis];
    const int64_t begin = std::min(size, std::max<int64_t>(0, -pads[i]));
    const int64_t end = std::max(begin, size - std::max<int64_t>(0, -pads[n + i]));
    if (begin > 0 || end < size) x = slice(x, axis, begin, end);
    params.before[axis] = std::max<int64_t>(0, params.before[axis]);
    params.after[axis] = std::max<int64_t>(0, params.after[axis]);
  }
  const std::string mode = c.text("mode", "constant");
  if (mode == "reflect") params.mode = PadMode::reflect;
  if (mode == "edge") params.mode = PadMode::replicate;
  if (mode == "wrap") params.mode = PadMode::circular;
  if (c.opset() < 11) {
    params.value = c.number("value", 0);
  } else if (c.has(2)) {
    params.value = c.number(2);
    if (!is_floating(x.dtype())) params.value = c.integer(2);
  } else if (!is_floating(x.dtype())) {
    params.value = 0;
  }
  if (x.dtype() == DType::boolean) params.value = params.value.to_double() != 0;
  return pad(x, params);
}

Results center_crop_pad(const Call& c) {
  Tensor x = c[0];
  const std::vector<int64_t> sizes = c.ints(1);
  std::vector<int64_t> axes = c.ints("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  c.check(axes.size() == sizes.size(), "{} sizes of {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axis_of(c, axes[i], x.rank());
    const int64_t n = x.shape()[static_cast<int>(axis)];
    const int64_t more = sizes[i] - n;
    if (more < 0) {
      const int64_t begin = -more / 2;
      x = slice(x, axis, begin, begin + sizes[i]);
    } else if (more > 0) {
      PadParams params;
      params.before = params.after = Dims::filled(x.rank(), 0);
      params.before[static_cast<int>(axis)] = more / 2;
      params.after[static_cast<int>(axis)] = more - more / 2;
      x = pad(x, params);
    }
  }
  return x;
}

Results constant_of_shape(const Call& c) {
  const Shape shape(c.ints(0));
  const Tensor value = c.tensor_attribute("value");
  if (!value.defined()) return zeros(shape, {DType::f32, c.device()});
  return full(shape, value.item_number(), {value.dtype(), c.device()});
}

Results range_of(const Call& c) {
  const DType dtype = c[0].dtype();
  if (is_floating(dtype)) {
    const double start = c.number(0);
    const double step = c.number(2);
    c.check(step != 0, "a step of 0");
    const double count = std::max(0.0, std::ceil((c.number(1) - start) / step));
    return cast(
        add(mul(arange(static_cast<int64_t>(count), {DType::f64, c.device()}), step), start),
        dtype);
  }
  c.check(c.integer(2) != 0, "a step of 0");
  return arange(c.integer(0), c.integer(1), c.integer(2), {dtype, c.device()});
}

Results eye_like(const Call& c) {
  const Tensor x = c[0];
  c.check(x.rank() == 2, "EyeLike of {}", x.shape());
  const int64_t k = c.integer("k", 0);
  const Tensor every = ones(x.shape(), {c.dtype("dtype", x.dtype()), c.device()});
  return tril(triu(every, k), k);
}

Results trilu(const Call& c) {
  const int64_t k = c.has(1) ? c.integer(1) : 0;
  return c.integer("upper", 1) != 0 ? triu(c[0], k) : tril(c[0], k);
}

Results depth_to_space(const Call& c) {
  const Tensor x = c[0];
  const int64_t b = c.integer("blocksize");
  c.check(x.rank() == 4 && b > 0 && x.shape()[1] % (b * b) == 0, "blocks of {} of {}", b,
          x.shape());
  const int64_t n = x.shape()[0];
  const int64_t d = x.shape()[1] / (b * b);
  const int64_t h = x.shape()[2];
  const int64_t w = x.shape()[3];
  const Tensor y = c.text("mode", "DCR") == "CRD"
                       ? permute(reshape(x, {n, d, b, b, h, w}), {0, 1, 4, 2, 5, 3})
                       : permute(reshape(x, {n, b, b, d, h, w}), {0, 3, 4, 1, 5, 2});
  return reshape(y, {n, d, h * b, w * b});
}

Results space_to_depth(const Call& c) {
  const Tensor x = c[0];
  const int64_t b = c.integer("blocksize");
  c.check(x.rank() == 4 && b > 0 && x.shape()[2] % b == 0 && x.shape()[3] % b == 0,
          "blocks of {} of {}", b, x.shape());
  const int64_t n = x.shape()[0];
  const int64_t d = x.shape()[1];
  const int64_t h = x.shape()[2] / b;
  const int64_t w = x.shape()[3] / b;
  const Tensor y = reshape(x, {n, d, h, b, w, b});
  if (c.text("mode", "DCR") == "CRD")
    return reshape(permute(y, {0, 1, 3, 5, 2, 4}), {n, d * b * b, h, w});
  return reshape(permute(y, {0, 3, 5, 1, 2, 4}), {n, d * b * b, h, w});
}

}  // namespace

Operators shape_operators() {
  return {
      {"Shape", shape_of},
      {"Size", [](const Call& c) { return known_ints({c[0].numel()}, {}); }},
      {"Reshape", reshape_of},
      {"Flatten", flatten_of},
      {"Transpose", transpose_of},
      {"Squeeze", squeeze_of},
      {"Unsqueeze", unsqueeze_of},
      {"Expand", expand_of},
      {"Tile", tile_of},
      {"Concat", concat_of},
      {"Split", split_of},
      {"Slice", slice_of},
      {"Pad", pad_of},
      {"CenterCropPad", center_crop_pad},
      {"ConstantOfShape", constant_of_shape},
      {"Range", range_of},
      {"EyeLike", eye_like},
      {"Trilu", trilu},
      {"DepthToSpace", depth_to_space},
      {"SpaceToDepth", space_to_depth},
  };
}

}  // namespace mica::onnx
