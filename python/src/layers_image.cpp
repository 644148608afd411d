// Layers that move elements: padding, resampling, reshaping; with PyTorch's constructor arguments.
#include <nanobind/stl/variant.h>

#include <variant>

#include "mica/nn/nn.h"
#include "python/src/layer.h"
#include "python/src/padding.h"

namespace mica::python {
namespace {

using namespace mica::nn;
using Scales = std::variant<double, std::vector<double>>;

/// One number for all sides, or as PyTorch has it (left, right, top, bottom, …): the last axis
/// first.
template <class Size>
Padding<Size> parse_sides(const char* name, const Dims& sides) {
  constexpr int kAxesHere = kAxes<Size>;
  if (sides.rank() == 1) return Padding<Size>(sides[0]);
  check<ShapeError>(sides.rank() == 2 * kAxesHere, "{}: padding must be 1 or {} numbers, got {}",
                    name, 2 * kAxesHere, sides.rank());
  Dims before;
  Dims after;
  for (int axis = kAxesHere - 1; axis >= 0; --axis) {
    before.push_back(sides[2 * axis]);
    after.push_back(sides[2 * axis + 1]);
  }
  return Padding<Size>::sides(to_size<Size>(before), to_size<Size>(after));
}

/// The same back: the last axis first.
template <class Size>
Dims sides_of(const Padding<Size>& padding) {
  const Dims before = size_of_axes(padding.before);
  const Dims after = size_of_axes(padding.after);
  Dims sides;
  for (int axis = before.rank() - 1; axis >= 0; --axis) {
    sides.push_back(before[axis]);
    sides.push_back(after[axis]);
  }
  return sides;
}

constexpr const char* kSides = "Before and after each axis, the last axis first.";

template <class L, class Size>
Layer<typename L::Impl> def_pad(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pad = add_layer<Impl>(nn, name, "Adds elements around the last axes.");
  pad.def(
      "__init__",
      [name](Impl* self, const Dims& padding) {
        construct(self, parse_sides<Size>(name, padding));
      },
      "padding"_a);
  def_option(pad, "padding", [](const auto& o) { return sides_of(o); }, kSides);
  return pad;
}

template <class L, class Size>
void def_zero_pad(nb::module_& nn, const char* name) {
  def_pad<L, Size>(nn, name).attr("value") = 0.0;
}

template <class L, class Size>
void def_constant_pad(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pad = add_layer<Impl>(nn, name, "Adds elements of one value around the last axes.");
  pad.def(
      "__init__",
      [name](Impl* self, const Dims& padding, double value) {
        construct(self, ConstantPadOptions<Size>{parse_sides<Size>(name, padding), value});
      },
      "padding"_a, "value"_a);
  def_option(pad, "padding", [](const auto& o) { return sides_of(o.padding); }, kSides);
  def_option(pad, "value", [](const auto& o) { return o.value.to_double(); }, "Of what is added.");
}

void bind_padding(nb::module_& nn) {
  def_zero_pad<ZeroPad1d, int64_t>(nn, "ZeroPad1d");
  def_zero_pad<ZeroPad2d, Size2>(nn, "ZeroPad2d");
  def_zero_pad<ZeroPad3d, Size3>(nn, "ZeroPad3d");
  def_pad<ReflectionPad1d, int64_t>(nn, "ReflectionPad1d");
  def_pad<ReflectionPad2d, Size2>(nn, "ReflectionPad2d");
  def_pad<ReflectionPad3d, Size3>(nn, "ReflectionPad3d");
  def_pad<ReplicationPad1d, int64_t>(nn, "ReplicationPad1d");
  def_pad<ReplicationPad2d, Size2>(nn, "ReplicationPad2d");
  def_pad<ReplicationPad3d, Size3>(nn, "ReplicationPad3d");
  def_pad<CircularPad1d, int64_t>(nn, "CircularPad1d");
  def_pad<CircularPad2d, Size2>(nn, "CircularPad2d");
  def_pad<CircularPad3d, Size3>(nn, "CircularPad3d");
  def_constant_pad<ConstantPad1d, int64_t>(nn, "ConstantPad1d");
  def_constant_pad<ConstantPad2d, Size2>(nn, "ConstantPad2d");
  def_constant_pad<ConstantPad3d, Size3>(nn, "ConstantPad3d");
}

Scale to_scale(const std::optional<Scales>& scale) {
  if (!scale) return {};
  if (const double* both = std::get_if<double>(&*scale)) return *both;
  const auto& each = std::get<std::vector<double>>(*scale);
  check<ShapeError>(each.size() >= 1 && each.size() <= 3,
                    "Upsample: scale_factor must be one, two or three numbers, got {}",
                    each.size());
  if (each.size() == 1) return each[0];
  return each.size() == 2 ? Scale(each[0], each[1]) : Scale(each[0], each[1], each[2]);
}

/// One number where all are equal, as they mostly are; None where the other of the two was given.
nb::object size_or_none(const Dims& size) {
  if (size.rank() == 0) return nb::none();
  return size.rank() == 1 ? nb::int_(size[0]) : nb::cast(size);
}
nb::object scale_or_none(const Scale& scale) {
  if (scale.w == 0) return nb::none();
  if (scale.h == scale.w && (scale.d == scale.w || scale.d == 0)) return nb::float_(scale.w);
  if (scale.d == 0) return nb::make_tuple(scale.h, scale.w);
  return nb::make_tuple(scale.d, scale.h, scale.w);
}

template <class Impl>
void def_resolution(Layer<Impl>& layer) {
  def_option(
      layer, "size", [](const auto& o) { return size_or_none(o.size); }, "Of the result, or None.");
  def_option(
      layer, "scale_factor", [](const auto& o) { return scale_or_none(o.scale); },
      "The result's size over the input's, or None.");
}

template <class L>
void def_upsampling(nb::module_& nn, const char* name, const char* doc, const char* mode,
                    const nb::object& align_corners) {
  using Impl = typename L::Impl;
  auto layer = add_layer<Impl>(nn, name, doc);
  layer.def(
      "__init__",
      [](Impl* self, const std::optional<Dims>& size, const std::optional<Scales>& scale) {
        construct(self, UpsamplingOptions{.size = size.value_or(Dims()), .scale = to_scale(scale)});
      },
      "size"_a = nb::none(), "scale_factor"_a = nb::none());
  def_resolution(layer);
  layer.attr("mode") = mode;
  layer.attr("align_corners") = align_corners;
}

void bind_resampling(nb::module_& nn) {
  def_upsampling<UpsamplingNearest2d>(nn, "UpsamplingNearest2d",
                                      "Images (N, C, H, W) at another resolution, by the nearest "
                                      "pixel: (N, C, H', W').",
                                      "nearest", nb::none());
  def_upsampling<UpsamplingBilinear2d>(nn, "UpsamplingBilinear2d",
                                       "Images (N, C, H, W) at another resolution, bilinear with "
                                       "the corners kept in place: (N, C, H', W').",
                                       "bilinear", nb::bool_(true));
  auto upsample = add_layer<Upsample::Impl>(nn, "Upsample", "Images at another resolution.");
  def_resolution(upsample);
  def_option(
      upsample, "mode", [](const auto& o) { return names_of(o.mode)[size_t(o.mode)]; },
      "How pixels between those of the input are made.");
  def_option(
      upsample, "align_corners", [](const auto& o) { return o.align_corners; },
      "Whether the corners stay in place.");
  upsample.def(
      "__init__",
      [](Upsample::Impl* self, const std::optional<Dims>& size, const std::optional<Scales>& scale,
         const std::string& mode, std::optional<bool> align_corners) {
        const auto word = parse_word<UpsampleMode>("Upsample: mode", mode,
                                                   {{"nearest", UpsampleMode::nearest},
                                                    {"nearest-exact", UpsampleMode::nearest_exact},
                                                    {"linear", UpsampleMode::linear},
                                                    {"bilinear", UpsampleMode::bilinear},
                                                    {"bicubic", UpsampleMode::bicubic},
                                                    {"trilinear", UpsampleMode::trilinear},
                                                    {"area", UpsampleMode::area}});
        construct(self, UpsampleOptions{.size = size.value_or(Dims()),
                                        .scale = to_scale(scale),
                                        .mode = word,
                                        .align_corners = align_corners.value_or(false)});
      },
      "size"_a = nb::none(), "scale_factor"_a = nb::none(), "mode"_a = "nearest",
      "align_corners"_a = nb::none());
  const auto def_factor = [&]<class L>(std::type_identity<L>, const char* name, const char* factor,
                                       const char* doc) {
    using Impl = typename L::Impl;
    add_layer<Impl>(nn, name, doc)
        .def(
            "__init__", [](Impl* self, int64_t n) { construct(self, n); }, nb::arg(factor))
        .def_prop_ro(factor, [](const Impl& self) { return self.options; }, "How many.");
  };
  def_factor(std::type_identity<PixelShuffle>(), "PixelShuffle", "upscale_factor",
             "(N, C · r², H, W) to (N, C, H · r, W · r).");
  def_factor(std::type_identity<PixelUnshuffle>(), "PixelUnshuffle", "downscale_factor",
             "(N, C, H · r, W · r) to (N, C · r², H, W).");
  def_factor(std::type_identity<ChannelShuffle>(), "ChannelShuffle", "groups",
             "Channels (groups, C / groups) become (C / groups, groups).");
}

template <class Impl>
void def_windows(Layer<Impl>& layer) {
  def_option(layer, "kernel_size", [](const auto& o) { return o.kernel; }, "Of a window.");
  def_option(layer, "dilation", [](const auto& o) { return o.dilation; }, "Between its elements.");
  def_option(layer, "padding", [](const auto& o) { return o.padding; }, "On both sides.");
  def_option(
      layer, "stride", [](const auto& o) { return o.stride; }, "From one window to the next.");
}

void bind_reshaping(nb::module_& nn) {
  add_layer<Identity::Impl>(nn, "Identity", "Its input.").def("__init__", [](Identity::Impl* self) {
    construct(self, NoParams{});
  });
  add_layer<Flatten::Impl>(nn, "Flatten", "Makes the axes from start_dim to end_dim one.")
      .def(
          "__init__",
          [](Flatten::Impl* self, int64_t start, int64_t end) {
            construct(self, FlattenOptions{start, end});
          },
          "start_dim"_a = 1, "end_dim"_a = -1)
      .def_prop_ro(
          "start_dim", [](const Flatten::Impl& self) { return self.options.start; },
          "The first axis of those.")
      .def_prop_ro(
          "end_dim", [](const Flatten::Impl& self) { return self.options.end; }, "The last.");
  add_layer<Permute::Impl>(nn, "Permute", "The axes in another order.")
      .def(
          "__init__", [](Permute::Impl* self, const Dims& dims) { construct(self, dims); },
          "dims"_a);
  add_layer<Unflatten::Impl>(nn, "Unflatten", "One axis becomes several.")
      .def(
          "__init__",
          [](Unflatten::Impl* self, int64_t dim, const Dims& sizes) {
            construct(self, UnflattenOptions{dim, sizes});
          },
          "dim"_a, "unflattened_size"_a)
      .def_prop_ro(
          "dim", [](const Unflatten::Impl& self) { return self.options.axis; }, "Which.")
      .def_prop_ro(
          "unflattened_size", [](const Unflatten::Impl& self) { return self.options.sizes; },
          "What it becomes.");
  auto unfold = add_layer<Unfold::Impl>(nn, "Unfold", "The windows of an image as columns.");
  unfold.def(
      "__init__",
      [](Unfold::Impl* self, Size2 kernel, Size2 dilation, Size2 padding, Size2 stride) {
        construct(self, Im2colParams{kernel, stride, padding, dilation});
      },
      "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1);
  def_windows(unfold);
  auto fold = add_layer<Fold::Impl>(nn, "Fold", "Columns added up to an image.");
  fold.def(
      "__init__",
      [](Fold::Impl* self, Size2 output, Size2 kernel, Size2 dilation, Size2 padding,
         Size2 stride) { construct(self, FoldOptions{output, kernel, stride, padding, dilation}); },
      "output_size"_a, "kernel_size"_a, "dilation"_a = 1, "padding"_a = 0, "stride"_a = 1);
  def_windows(fold);
  def_option(fold, "output_size", [](const auto& o) { return o.output; }, "Of the image.");
}

}  // namespace

void bind_image_layers(nb::module_& nn) {
  bind_padding(nn);
  bind_resampling(nn);
  bind_reshaping(nn);
}

}  // namespace mica::python
