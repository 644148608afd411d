// Images at other resolutions and places, with PyTorch's argument names.
#include <nanobind/stl/variant.h>

#include <variant>

#include "python/src/def.h"

namespace mica::python {
namespace {

using Scales = std::variant<double, std::vector<double>>;

Scale2 to_scale(const std::optional<Scales>& scale) {
  if (!scale) return {};
  if (const double* both = std::get_if<double>(&*scale)) return *both;
  const auto& each = std::get<std::vector<double>>(*scale);
  check<ShapeError>(each.size() == 1 || each.size() == 2,
                    "interpolate: scale_factor must be one or two numbers, got {}", each.size());
  return each.size() == 1 ? Scale2(each[0]) : Scale2(each[0], each[1]);
}

Tensor interpolate(const Tensor& input, const MaybeDims& size, const std::optional<Scales>& scale,
                   const std::string& mode, bool align_corners) {
  const auto word = parse_word<UpsampleMode>("interpolate: mode", mode,
                                             {{"nearest", UpsampleMode::nearest},
                                              {"linear", UpsampleMode::linear},
                                              {"bilinear", UpsampleMode::bilinear},
                                              {"bicubic", UpsampleMode::bicubic}});
  return upsample(input, {.size = size.value_or(Dims()),
                          .scale = to_scale(scale),
                          .mode = word,
                          .align_corners = align_corners});
}

Tensor sample(const Tensor& input, const Tensor& grid, const std::string& mode,
              const std::string& padding, bool align_corners) {
  return grid_sample(input, grid,
                     {.mode = parse_word<GridMode>("grid_sample: mode", mode,
                                                   {{"bilinear", GridMode::bilinear},
                                                    {"nearest", GridMode::nearest},
                                                    {"bicubic", GridMode::bicubic}}),
                      .padding = parse_word<GridPadding>("grid_sample: padding_mode", padding,
                                                         {{"zeros", GridPadding::zeros},
                                                          {"border", GridPadding::border},
                                                          {"reflection", GridPadding::reflection}}),
                      .align_corners = align_corners});
}

/// The size of the images is (N, C, H, W), as PyTorch has it.
Tensor make_grid(const Tensor& theta, const Dims& size, bool align_corners) {
  check<ShapeError>(size.rank() == 4, "affine_grid: size must be (N, C, H, W), got {}", size);
  check<ShapeError>(theta.rank() == 0 || size[0] == theta.shape()[0],
                    "affine_grid: size {} is of {} images, theta {} of others", size, size[0],
                    theta.shape());
  return affine_grid(theta, {size[2], size[3]}, {.align_corners = align_corners});
}

}  // namespace

void bind_sampling(Scope& scope) {
  Functions& f = scope.functional;
  f.def("interpolate", interpolate, "input"_a, "size"_a = nb::none(), "scale_factor"_a = nb::none(),
        "mode"_a = "nearest", "align_corners"_a = false, ReleaseGil());
  f.def("grid_sample", sample, "input"_a, "grid"_a, "mode"_a = "bilinear",
        "padding_mode"_a = "zeros", "align_corners"_a = false, ReleaseGil());
  f.def("affine_grid", make_grid, "theta"_a, "size"_a, "align_corners"_a = false, ReleaseGil());
  f.def(
      "unfold",
      [](const Tensor& input, Size2 kernel, Size2 dilation, Size2 padding, Size2 stride) {
        return im2col(
            input, {.kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation});
      },
      "input"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1, ReleaseGil());
  f.def(
      "fold",
      [](const Tensor& input, Size2 size, Size2 kernel, Size2 dilation, Size2 padding,
         Size2 stride) {
        return col2im(input, {.im2col = {.kernel = kernel,
                                         .stride = stride,
                                         .padding = padding,
                                         .dilation = dilation},
                              .size = size});
      },
      "input"_a, "output_size"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0,
      "stride"_a = 1, ReleaseGil());
  f.def("pixel_shuffle", pixel_shuffle, "input"_a, "upscale_factor"_a, ReleaseGil());
  f.def("pixel_unshuffle", pixel_unshuffle, "input"_a, "downscale_factor"_a, ReleaseGil());
  f.def("channel_shuffle", channel_shuffle, "input"_a, "groups"_a, ReleaseGil());
}

}  // namespace mica::python
