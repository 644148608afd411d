// What users call: resampling along one, two or three axes, made of `upsample2d`.
#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/pool/pool.h"
#include "mica/ops/upsample/antialias.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();

/// The size and the scale of the result along an image axis. A scale that is 0 is the sizes' ratio.
struct Axis {
  int64_t size = 1;
  double scale = 0;
};

Axis result_axis(const UpsampleOptions& o, int64_t pixels, int axis, int axes) {
  if (!o.size.empty()) return {o.size[o.size.rank() == 1 ? 0 : axis], 0};
  const double scales[] = {o.scale.d, o.scale.h, o.scale.w};
  const double scale = scales[3 - axes + axis];
  check<ShapeError>(scale > 0 && std::isfinite(scale),
                    "upsample: scale must be positive and finite, got {}", scale);
  const double size = std::floor(static_cast<double>(pixels) * scale);
  check<ShapeError>(size >= 1 && size <= static_cast<double>(kMostPixels),
                    "upsample: scale {} makes {} pixels of the {} along image axis {} of {}", scale,
                    size, pixels, axis, axes);
  return {static_cast<int64_t>(size), scale};
}

/// How many image axes a mode is for; 0 means any.
int axes_of(UpsampleMode mode) {
  switch (mode) {
    case UpsampleMode::linear:
      return 1;
    case UpsampleMode::bilinear:
    case UpsampleMode::bicubic:
      return 2;
    case UpsampleMode::trilinear:
      return 3;
    default:
      return 0;
  }
}

constexpr const char* kForms[] = {"[N, C, L]", "[N, C, H, W]", "[N, C, D, H, W]"};

void check_options(const Tensor& x, const UpsampleOptions& o) {
  const int axes = x.rank() - 2;
  check<ShapeError>(axes >= 1 && axes <= 3,
                    "upsample: input must be [N, C, L], [N, C, H, W] or [N, C, D, H, W], got {}",
                    x.shape());
  const int wanted = axes_of(o.mode);
  check<ShapeError>(wanted == 0 || wanted == axes, "upsample: mode {} takes {}, got {}",
                    print_field(o.mode), kForms[wanted > 0 ? wanted - 1 : 0], x.shape());
  check(wanted != 0 || !o.align_corners, "upsample: align_corners means nothing for mode {}",
        print_field(o.mode));
  check(!o.antialias || o.mode == UpsampleMode::bilinear || o.mode == UpsampleMode::bicubic,
        "upsample: antialias is for the modes bilinear and bicubic, got {}", print_field(o.mode));
  const bool scaled = o.scale.d != 0 || o.scale.h != 0 || o.scale.w != 0;
  check(o.size.empty() == scaled, "upsample: expected either size or scale, got {}",
        scaled ? "both" : "neither");
  check<ShapeError>(scaled || o.size.rank() == 1 || o.size.rank() == axes,
                    "upsample: size must have {} entries, got {}", axes, o.size);
}

Tensor mean_under(const Tensor& x, std::span<const Axis> axes) {
  if (axes.size() == 1) return adaptive_avg_pool1d(x, axes[0].size);
  if (axes.size() == 2) return adaptive_avg_pool2d(x, {axes[0].size, axes[1].size});
  return adaptive_avg_pool3d(x, {axes[0].size, axes[1].size, axes[2].size});
}

/// (N, C, L) is a row of pixels.
Tensor resampled_row(const Tensor& x, const Axis& axis, Upsample2dParams p) {
  p.size = {1, axis.size};
  p.scale_w = axis.scale;
  const Tensor y = upsample2d(reshape(x, {x.size(0), x.size(1), 1, x.size(2)}), p);
  return reshape(y, {x.size(0), x.size(1), axis.size});
}

/// The planes of a volume are resampled first, then each pixel's column of them: a column is an
/// image of one pixel's width, and the pixels of a plane are its channels.
Tensor resampled_volume(const Tensor& x, std::span<const Axis> axes, Upsample2dParams p) {
  const int64_t n = x.size(0);
  const int64_t c = x.size(1);
  const int64_t d = x.size(2);
  const auto& [depth, height, width] = std::tie(axes[0], axes[1], axes[2]);
  p.size = {height.size, width.size};
  p.scale_h = height.scale;
  p.scale_w = width.scale;
  const Tensor planes = upsample2d(reshape(x, {n, c * d, x.size(3), x.size(4)}), p);
  const Tensor columns =
      permute(reshape(planes, {n * c, d, 1, height.size * width.size}), {0, 3, 1, 2});
  p.size = {depth.size, 1};
  p.scale_h = depth.scale;
  p.scale_w = 0;
  return reshape(permute(upsample2d(columns, p), {0, 2, 3, 1}),
                 {n, c, depth.size, height.size, width.size});
}

}  // namespace

Tensor upsample(const Tensor& x, const UpsampleOptions& o) {
  check_options(x, o);
  const int count = x.rank() - 2;
  std::array<Axis, 3> sizes;
  for (int i = 0; i < count; ++i)
    sizes[static_cast<size_t>(i)] = result_axis(o, x.size(i + 2), i, count);
  const std::span<const Axis> axes(sizes.data(), static_cast<size_t>(count));
  if (o.mode == UpsampleMode::area) return mean_under(x, axes);
  Upsample2dParams p{
      .mode = axes_of(o.mode) == 1 || axes_of(o.mode) == 3 ? UpsampleMode::bilinear : o.mode,
      .align_corners = o.align_corners};
  if (count == 1) return resampled_row(x, axes[0], p);
  if (count == 3) return resampled_volume(x, axes, p);
  p.size = {axes[0].size, axes[1].size};
  p.scale_h = axes[0].scale;
  p.scale_w = axes[1].scale;
  return o.antialias ? upsample2d_antialiased(x, p) : upsample2d(x, p);
}

template <>
struct Words<UpsampleMode> {
  static constexpr std::pair<const char*, UpsampleMode> all[] = {
      {"nearest", UpsampleMode::nearest},
      {"linear", UpsampleMode::linear},
      {"bilinear", UpsampleMode::bilinear},
      {"bicubic", UpsampleMode::bicubic},
      {"trilinear", UpsampleMode::trilinear},
      {"area", UpsampleMode::area},
      {"nearest-exact", UpsampleMode::nearest_exact}};
};

Functions upsample_functions() {
  const auto interpolate = [](const Tensor& x, const Dims& size, const std::vector<double>& scale,
                              UpsampleMode mode, std::optional<bool> align_corners,
                              std::optional<bool> recompute_scale_factor, bool antialias) {
    const auto axes = static_cast<size_t>(std::max(x.rank() - 2, 1));
    check<ShapeError>(scale.size() <= 1 || scale.size() == axes,
                      "interpolate: scale_factor must be one number or {}, got {}", axes,
                      scale.size());
    UpsampleOptions o{.size = size,
                      .mode = mode,
                      .align_corners = align_corners.value_or(false),
                      .antialias = antialias};
    const auto of = [&](size_t from_end) {
      return scale.size() == 1          ? scale[0]
             : scale.size() >= from_end ? scale[scale.size() - from_end]
                                        : 0.0;
    };
    if (!scale.empty()) o.scale = {of(3), of(2), of(1)};
    // The sizes that the factors give stand for them, so that positions go by the sizes' ratio.
    if (recompute_scale_factor.value_or(false) && !scale.empty() && size.empty()) {
      Dims sizes;
      for (int i = 2; i < x.rank(); ++i)
        sizes.push_back(result_axis(o, x.size(i), i - 2, x.rank() - 2).size);
      o.size = sizes;
      o.scale = {};
    }
    return upsample(x, o);
  };
  return {
      {.name = "interpolate",
       .doc = "input (N, C, L), (N, C, H, W) or (N, C, D, H, W) at another resolution: size, or "
              "floor(size * scale_factor). mode: 'nearest', 'nearest-exact' (by the pixels' "
              "middles), 'area' (means), 'linear' (of L), 'bilinear' or 'bicubic' (of H, W), "
              "'trilinear' (of D, H, W). align_corners keeps the middles of the corner pixels in "
              "place instead of the edges. antialias, of bilinear and bicubic: all pixels that lie "
              "under one of a smaller result count. With recompute_scale_factor positions go by "
              "the sizes' ratio, not by scale_factor.",
       .signatures = {{interpolate,
                       {"input",
                        {"size", kNone},
                        {"scale_factor", kNone},
                        {"mode", "nearest"},
                        {"align_corners", kNone},
                        {"recompute_scale_factor", kNone},
                        {"antialias", false}}}},
       .offer = kFunctional,
       .op = "upsample"}};
}

}  // namespace mica
