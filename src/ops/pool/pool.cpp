#include "mica/ops/pool/pool.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/pool/geometry.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void check_dtype(const char* op, const Tensor& x) {
  check<DTypeError>(kFloatDTypes.contains(x.dtype()), "{}: expected {}, got {}", op,
                    kFloatDTypes.words(), x.dtype());
}

/// Checks the call and gives the result's shape.
template <class Size>
Shape max_shape(const char* op, const Tensor& x, const MaxPoolOptions<Size>& o) {
  check_dtype(op, x);
  return pool_shape(
      op, x.shape(),
      {dims_of(o.kernel), dims_of(o.stride), dims_of(o.padding), dims_of(o.dilation), o.ceil_mode});
}
template <class Size>
Shape avg_shape(const char* op, const Tensor& x, const AvgPoolOptions<Size>& o) {
  check_dtype(op, x);
  check(o.divisor_override >= 0, "{}: divisor_override must be positive, got {}", op,
        o.divisor_override);
  return pool_shape(
      op, x.shape(),
      {dims_of(o.kernel), dims_of(o.stride), dims_of(o.padding), dims_of(Size(1)), o.ceil_mode});
}
template <class Size>
Shape lp_shape(const char* op, const Tensor& x, double p, const LpPoolOptions<Size>& o) {
  check(std::isfinite(p) && p > 0, "{}: the norm must be a positive number, got {}", op, p);
  return avg_shape<Size>(op, x, {o.kernel, o.stride, 0, o.ceil_mode});
}
Shape adaptive_shape(const char* op, const Tensor& x, const Dims& output) {
  check_dtype(op, x);
  return adaptive_pool_shape(op, x.shape(), output);
}

// (N, C, L) as (N, C, 1, L).
Tensor as_row(const Tensor& x) { return reshape(x, {x.size(0), x.size(1), 1, x.size(2)}); }

// Windows of three axes are pooled in their planes first, then along the depth.

// (N, C, D, H, W) as (N, C * D, H, W).
Tensor as_planes(const Tensor& x) {
  return reshape(x, {x.size(0), x.size(1) * x.size(2), x.size(3), x.size(4)});
}
// The pooled planes (N, C * D, H', W') as (N, C, D, H' * W').
Tensor as_depths(const Tensor& planes, const Tensor& x) {
  return reshape(planes, {x.size(0), x.size(1), x.size(2), planes.size(2) * planes.size(3)});
}

// (means * count)^(1/p), with no gradient at 0, where that of the root is infinite.
Tensor norm_of_means(const Tensor& means, double p, int64_t count) {
  const Tensor sums = mul(mul(sign(means), relu(abs(means))), static_cast<double>(count));
  return pow(sums, 1 / p);
}

PooledWithIndices reshaped(const PooledWithIndices& pooled, const Shape& shape) {
  return {reshape(pooled.values, shape), reshape(pooled.indices, shape)};
}

// What was found in the planes' places `depths`, of which each depth has as many as there are
// windows in a plane; `planes` are places in a plane.
PooledWithIndices found_in_volume(const PooledWithIndices& depths, const Tensor& planes,
                                  const Tensor& x, const Shape& shape) {
  const int64_t windows = shape[3] * shape[4];
  const Shape flat = {x.size(0), x.size(1), shape[2] * windows};
  const Tensor at = reshape(depths.indices, flat);
  const Tensor within = gather(reshape(planes, {x.size(0), x.size(1), x.size(2) * windows}), 2, at);
  const Tensor depth = floor_divide(at, windows);
  return {reshape(depths.values, shape),
          reshape(add(mul(depth, x.size(3) * x.size(4)), within), shape)};
}

MaxPool2dParams row_options(const MaxPoolOptions<int64_t>& o) {
  return {.kernel = {1, o.kernel},
          .stride = {1, o.stride},
          .padding = {0, o.padding},
          .dilation = {1, o.dilation},
          .ceil_mode = o.ceil_mode};
}
MaxPool2dParams plane_options(const MaxPoolOptions<Size3>& o) {
  return {.kernel = {o.kernel.h, o.kernel.w},
          .stride = {o.stride.h, o.stride.w},
          .padding = {o.padding.h, o.padding.w},
          .dilation = {o.dilation.h, o.dilation.w},
          .ceil_mode = o.ceil_mode};
}
MaxPool2dParams depth_options(const MaxPoolOptions<Size3>& o) {
  return {.kernel = {o.kernel.d, 1},
          .stride = {o.stride.d, 1},
          .padding = {o.padding.d, 0},
          .dilation = {o.dilation.d, 1},
          .ceil_mode = o.ceil_mode};
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const MaxPoolOptions<int64_t>& o) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return max_pool1d(v, o); });
  const Shape shape = max_shape("max_pool1d", x, o);
  return reshape(max_pool2d(as_row(x), row_options(o)), shape);
}

PooledWithIndices max_pool1d_with_indices(const Tensor& x, const MaxPoolOptions<int64_t>& o) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return max_pool1d_with_indices(v, o); });
  const Shape shape = max_shape("max_pool1d", x, o);
  return reshaped(max_pool2d_with_indices(as_row(x), row_options(o)), shape);
}

Tensor max_pool3d(const Tensor& x, const MaxPoolOptions<Size3>& o) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return max_pool3d(v, o); });
  const Shape shape = max_shape("max_pool3d", x, o);
  const Tensor planes = max_pool2d(as_planes(x), plane_options(o));
  return reshape(max_pool2d(as_depths(planes, x), depth_options(o)), shape);
}

PooledWithIndices max_pool3d_with_indices(const Tensor& x, const MaxPoolOptions<Size3>& o) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return max_pool3d_with_indices(v, o); });
  const Shape shape = max_shape("max_pool3d", x, o);
  const PooledWithIndices planes = max_pool2d_with_indices(as_planes(x), plane_options(o));
  return found_in_volume(max_pool2d_with_indices(as_depths(planes.values, x), depth_options(o)),
                         planes.indices, x, shape);
}

Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions<int64_t>& o) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return avg_pool1d(v, o); });
  const Shape shape = avg_shape("avg_pool1d", x, o);
  return reshape(avg_pool2d(as_row(x), {.kernel = {1, o.kernel},
                                        .stride = {1, o.stride},
                                        .padding = {0, o.padding},
                                        .ceil_mode = o.ceil_mode,
                                        .count_include_pad = o.count_include_pad,
                                        .divisor_override = o.divisor_override}),
                 shape);
}

Tensor avg_pool3d(const Tensor& x, const AvgPoolOptions<Size3>& o) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return avg_pool3d(v, o); });
  const Shape shape = avg_shape("avg_pool3d", x, o);
  const Tensor planes = avg_pool2d(as_planes(x), {.kernel = {o.kernel.h, o.kernel.w},
                                                  .stride = {o.stride.h, o.stride.w},
                                                  .padding = {o.padding.h, o.padding.w},
                                                  .ceil_mode = o.ceil_mode,
                                                  .count_include_pad = o.count_include_pad,
                                                  .divisor_override = o.divisor_override});
  return reshape(
      avg_pool2d(as_depths(planes, x), {.kernel = {o.kernel.d, 1},
                                        .stride = {o.stride.d, 1},
                                        .padding = {o.padding.d, 0},
                                        .ceil_mode = o.ceil_mode,
                                        .count_include_pad = o.count_include_pad,
                                        .divisor_override = o.divisor_override > 0 ? 1 : 0}),
      shape);
}

Tensor adaptive_max_pool1d(const Tensor& x, int64_t output) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return adaptive_max_pool1d(v, output); });
  const Shape shape = adaptive_shape("adaptive_max_pool1d", x, {output});
  return reshape(adaptive_max_pool2d(as_row(x), {1, output}), shape);
}

Tensor adaptive_max_pool3d(const Tensor& x, Size3 output) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return adaptive_max_pool3d(v, output); });
  const Shape shape = adaptive_shape("adaptive_max_pool3d", x, dims_of(output));
  const Tensor planes = adaptive_max_pool2d(as_planes(x), {output.h, output.w});
  return reshape(adaptive_max_pool2d(as_depths(planes, x), {output.d, output.h * output.w}), shape);
}

PooledWithIndices adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output) {
  if (x.rank() == 2)
    return with_leading_axis(
        x, 3, [&](const Tensor& v) { return adaptive_max_pool1d_with_indices(v, output); });
  const Shape shape = adaptive_shape("adaptive_max_pool1d", x, {output});
  return reshaped(adaptive_max_pool2d_with_indices(as_row(x), {1, output}), shape);
}

PooledWithIndices adaptive_max_pool3d_with_indices(const Tensor& x, Size3 output) {
  if (x.rank() == 4)
    return with_leading_axis(
        x, 5, [&](const Tensor& v) { return adaptive_max_pool3d_with_indices(v, output); });
  const Shape shape = adaptive_shape("adaptive_max_pool3d", x, dims_of(output));
  const PooledWithIndices planes =
      adaptive_max_pool2d_with_indices(as_planes(x), {output.h, output.w});
  return found_in_volume(adaptive_max_pool2d_with_indices(as_depths(planes.values, x),
                                                          {output.d, output.h * output.w}),
                         planes.indices, x, shape);
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return adaptive_avg_pool1d(v, output); });
  const Shape shape = adaptive_shape("adaptive_avg_pool1d", x, {output});
  return reshape(adaptive_avg_pool2d(as_row(x), {1, output}), shape);
}

Tensor adaptive_avg_pool3d(const Tensor& x, Size3 output) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return adaptive_avg_pool3d(v, output); });
  const Shape shape = adaptive_shape("adaptive_avg_pool3d", x, dims_of(output));
  const Tensor planes = adaptive_avg_pool2d(as_planes(x), {output.h, output.w});
  return reshape(adaptive_avg_pool2d(as_depths(planes, x), {output.d, output.h * output.w}), shape);
}

Tensor lp_pool1d(const Tensor& x, double p, const LpPoolOptions<int64_t>& o) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3, [&](const Tensor& v) { return lp_pool1d(v, p, o); });
  const ComputedIn precision(Precision::f32);
  const Shape shape = lp_shape("lp_pool1d", x, p, o);
  return reshape(lp_pool2d(as_row(x), p, {{1, o.kernel}, {1, o.stride}, o.ceil_mode}), shape);
}

Tensor lp_pool2d(const Tensor& x, double p, const LpPoolOptions<Size2>& o) {
  if (x.rank() == 3)
    return with_leading_axis(x, 4, [&](const Tensor& v) { return lp_pool2d(v, p, o); });
  const ComputedIn precision(Precision::f32);
  lp_shape("lp_pool2d", x, p, o);
  const Tensor means =
      avg_pool2d(pow(x, p), {.kernel = o.kernel, .stride = o.stride, .ceil_mode = o.ceil_mode});
  return norm_of_means(means, p, o.kernel.h * o.kernel.w);
}

Tensor lp_pool3d(const Tensor& x, double p, const LpPoolOptions<Size3>& o) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5, [&](const Tensor& v) { return lp_pool3d(v, p, o); });
  const ComputedIn precision(Precision::f32);
  lp_shape("lp_pool3d", x, p, o);
  const Tensor means =
      avg_pool3d(pow(x, p), {.kernel = o.kernel, .stride = o.stride, .ceil_mode = o.ceil_mode});
  return norm_of_means(means, p, o.kernel.d * o.kernel.h * o.kernel.w);
}

}  // namespace mica
