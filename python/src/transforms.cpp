// mica.data: what is done to batches of images.
#include "mica/data/transforms.h"

#include "python/src/callback.h"
#include "python/src/dataset.h"

namespace mica::python {
namespace {

using data::Transform;

/// One of Python's own: apply(x), or with `count` random numbers in [0, 1) for each image, which
/// draw(numbers) may change, apply(x, parameters).
void make_transform(Transform* self, const std::string& name, nb::handle apply, int64_t count,
                    nb::handle draw) {
  const auto as_result = [name](const nb::object& result) {
    if (!nb::isinstance<Tensor>(result))
      raise_type_error("data.Transform: {} must return a tensor, got {}", name, class_name(result));
    return nb::cast<Tensor>(result);
  };
  if (count == 0) {
    new (self) Transform(name, [f = Shared(apply), as_result](const Tensor& x) {
      const nb::gil_scoped_acquire acquire;
      return as_result(f.get()(x));
    });
    return;
  }
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
  new (self) Transform(name, count, change,
                       [f = Shared(apply), as_result](const Tensor& x, const Tensor& parameters) {
                         const nb::gil_scoped_acquire acquire;
                         return as_result(f.get()(x, parameters));
                       });
}

}  // namespace

void bind_transforms(nb::module_& m) {
  nb::class_<Transform>(m, "Transform", "Changes batches of images (n, C, H, W).")
      .def("__init__", make_transform, "name"_a, "apply"_a, "count"_a = 0, "draw"_a = nb::none(),
           "apply(x), or with `count` random numbers for each image apply(x, parameters (n, "
           "count)); draw(numbers) may make others of the numbers in [0, 1) of an image.")
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
          "The second: images (n, C, H, W) with their parameters, which lie on the same device.");
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
