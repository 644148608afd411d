// mica.data: what is done to batches of images.
#include "mica/data/transforms.h"

#include <algorithm>

#include <nanobind/stl/pair.h>

#include "mica/data/mix.h"

#include "python/src/callback.h"
#include "python/src/dataset.h"

namespace mica::python {
namespace {

using data::Transform;

/// One of Python's own: apply(x), or with `count` random numbers in [0, 1) for each image, which
/// draw(numbers) may change, apply(x, parameters).
void make_transform(Transform* self, const std::string& name, nb::handle apply, int64_t count,
                    nb::handle draw, nb::handle apply_mask) {
  const auto as_result = [name](const nb::object& result) {
    if (!nb::isinstance<Tensor>(result))
      raise_type_error("data.Transform: {} must return a tensor, got {}", name, class_name(result));
    return nb::cast<Tensor>(result);
  };
  const auto called = [&](nb::handle function) -> Transform::Apply {
    return [f = Shared(function), as_result, plain = count == 0](const Tensor& x,
                                                                 const Tensor& parameters) {
      const nb::gil_scoped_acquire acquire;
      return as_result(plain ? f.get()(x) : f.get()(x, parameters));
    };
  };
  Transform::Draw change = [](std::span<float>) {};
  if (!draw.is_none()) {
    change = [f = Shared(draw), name](std::span<float> numbers) {
      const nb::gil_scoped_acquire acquire;
      const auto changed =
          nb::cast<std::vector<float>>(f.get()(std::vector<float>(numbers.begin(), numbers.end())));
      check(changed.size() == numbers.size(), "data.Transform: draw of {} gave {} numbers for {}",
            name, changed.size(), numbers.size());
      std::ranges::copy(changed, numbers.begin());
    };
  }
  new (self) Transform(name, count, change, called(apply),
                       apply_mask.is_none() ? Transform::Apply() : called(apply_mask));
}

}  // namespace

void bind_transforms(nb::module_& m) {
  nb::class_<Transform>(m, "Transform", "Changes batches of images (n, C, H, W).")
      .def("__init__", make_transform, "name"_a, "apply"_a, "count"_a = 0, "draw"_a = nb::none(),
           "apply_mask"_a = nb::none(),
           "apply(x), or with `count` random numbers for each image apply(x, parameters (n, "
           "count)); draw(numbers) may make others of the numbers in [0, 1) of an image. "
           "apply_mask does the same to the classes of pixels (n, H, W).")
      .def(
          "__call__",
          [](const Transform& self, const Tensor& x, const std::vector<int64_t>& indices,
             uint64_t seed, int64_t epoch, int64_t position) {
            return self(x, indices, {.seed = seed, .epoch = epoch, .position = position});
          },
          "x"_a, "indices"_a, "seed"_a = 0, "epoch"_a = 0, "position"_a = 0, ReleaseGil(),
          "Images that are these numbers of their data set.")
      .def(
          "draw",
          [](const Transform& self, const std::vector<int64_t>& indices, uint64_t seed,
             int64_t epoch, int64_t position) {
            return or_none(
                self.draw(indices, {.seed = seed, .epoch = epoch, .position = position}));
          },
          "indices"_a, "seed"_a = 0, "epoch"_a = 0, "position"_a = 0, ReleaseGil(),
          "The first step of a call: the parameters (n, count) of these images, on the CPU; None "
          "where there are none.")
      .def(
          "apply",
          [](const Transform& self, const Tensor& x, const std::optional<Tensor>& parameters) {
            return self.apply(x, or_undefined(parameters));
          },
          "x"_a, "parameters"_a = nb::none(), ReleaseGil(),
          "The second: images (n, C, H, W) with their parameters, which lie on the same device.")
      .def(
          "apply_mask",
          [](const Transform& self, const Tensor& mask, const std::optional<Tensor>& parameters) {
            return self.apply_mask(mask, or_undefined(parameters));
          },
          "mask"_a, "parameters"_a = nb::none(), ReleaseGil(),
          "The classes of pixels (n, H, W) of images with these parameters; what comes in from "
          "outside is -100.");
  using data::MixOptions;
  const auto def_mix = [&](const char* name,
                           data::Mixed (*mix)(const Tensor&, const Tensor&, const MixOptions&),
                           const char* doc) {
    m.def(
        name,
        [mix](const Tensor& x, const Tensor& y, int64_t classes, double alpha) {
          data::Mixed mixed = without_gil([&] { return mix(x, y, {classes, alpha}); });
          return std::pair<Tensor, Tensor>(mixed.x, mixed.y);
        },
        "x"_a, "y"_a, "num_classes"_a, "alpha"_a = 1.0, doc);
  };
  def_mix("mixup", data::mixup,
          "Images (N, C, H, W), each with the one before it in shares from Beta(alpha, alpha), and "
          "the probabilities (N, num_classes) of their classes y (N).");
  def_mix("cutmix", data::cutmix,
          "Images (N, C, H, W), each with a rectangle of the one before it, and the probabilities "
          "(N, num_classes) of their classes y (N) by area.");
  m.def(
      "random_resized_crop",
      [](Size2 size, double least, double most, double ratio) {
        return data::random_resized_crop({size, least, most, ratio});
      },
      "size"_a, "least"_a = data::RandomResizedCropOptions().least,
      "most"_a = data::RandomResizedCropOptions().most,
      "ratio"_a = data::RandomResizedCropOptions().ratio,
      "Cuts out a part of a random area, from least to most of the image's, and shape, and brings "
      "it to a size.");
  m.def(
      "rand_augment",
      [](int64_t count, double magnitude) { return data::rand_augment({count, magnitude}); },
      "count"_a = 2, "magnitude"_a = 9.0,
      "So many of thirteen changes of place and colour, chosen at random for each image.");
  m.def("normalize", data::normalize, "mean"_a, "std"_a,
        "(x - mean) / std, with a number for each channel, or one for all.");
  m.def("pad_crop", data::pad_crop, "padding"_a, "Cuts out of the image with zeros around it.");
  m.def("flip", data::flip, "p"_a = 0.5, "Left and right change places, with probability p.");
  m.def("vertical_flip", data::vertical_flip, "p"_a = 0.5, "So do top and bottom.");
  m.def("rotate", data::rotate, "degrees"_a, "Turns by up to so many degrees to either side.");
  m.def("resize", data::resize, "size"_a, "Brings images to a height and a width.");
  m.def(
      "color_jitter",
      [](double brightness, double contrast, double saturation, double hue) {
        return data::color_jitter({brightness, contrast, saturation, hue});
      },
      "brightness"_a = 0.0, "contrast"_a = 0.0, "saturation"_a = 0.0, "hue"_a = 0.0,
      "Changes brightness, contrast, saturation and hue of images in [0, 1] at random.");
}

}  // namespace mica::python
