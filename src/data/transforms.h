#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mica/core/dims.h"
#include "mica/core/tensor.h"

namespace mica::data {

/// Which random numbers a transform takes: those of image i depend on these and i alone, not on the
/// batch it is in, the thread or the device.
struct RandomStream {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t position = 0;  ///< of the transform in its list: two flips then differ
};

/// Changes batches of images (n, C, H, W) f32, on any device. A random one has parameters for each
/// image, which are drawn on the host:
///
///     Tensor y = data::flip()(x, indices, {.seed = 1, .epoch = 3});
class Transform {
 public:
  /// Makes the parameters of one image from as many random numbers in [0, 1).
  using Draw = std::function<void(std::span<float> numbers)>;
  /// The images with their parameters, (n, k) f32 on the same device; undefined where k is 0.
  using Apply = std::function<Tensor(const Tensor& x, const Tensor& parameters)>;

  /// Without random numbers.
  Transform(std::string name, std::function<Tensor(const Tensor& x)> apply);
  /// With `count` parameters for each image. One that moves pixels has a second function, which
  /// moves the classes of pixels, masks (n, H, W) i64, in the same way.
  Transform(std::string name, int64_t count, Draw draw, Apply apply, Apply apply_mask = {});

  /// Images that are numbers `indices` (n) of their data set.
  Tensor operator()(const Tensor& x, std::span<const int64_t> indices,
                    const RandomStream& stream = {}) const;

  /// The two steps of it: the parameters (n, k) on the CPU, undefined where there are none, and
  /// their use.
  Tensor draw(std::span<const int64_t> indices, const RandomStream& stream) const;
  Tensor apply(const Tensor& x, const Tensor& parameters) const;
  /// The classes of pixels (n, H, W) i64 of images with these parameters. Pixels that come in from
  /// outside of the image have the class that cross_entropy ignores, -100.
  Tensor apply_mask(const Tensor& mask, const Tensor& parameters) const;

 private:
  std::string name_;
  int64_t count_ = 0;
  Draw draw_;
  Apply apply_;
  Apply apply_mask_;  ///< empty where pixels stay where they are
};

/// (x - mean) / std, with a number for each channel, or one for all.
Transform normalize(const std::vector<float>& mean, const std::vector<float>& std);
/// Cuts an image of the same size out of the one with `padding` zeros on each side, at random.
Transform pad_crop(int64_t padding);
/// Left and right change places, with probability p.
Transform flip(double p = 0.5);
/// So do top and bottom.
Transform vertical_flip(double p = 0.5);
/// Turns the image about its middle by up to `degrees` to either side; bilinear, zeros come in.
Transform rotate(double degrees);
/// Brings images to a height and a width; bilinear, without antialiasing.
Transform resize(Size2 size);

struct RandomResizedCropOptions {
  Size2 size = 0;          ///< of the result
  double least = 0.08;     ///< of the image's area
  double most = 1;         ///< likewise
  double ratio = 4.0 / 3;  ///< of the sides of what is cut out, at most, either way
};
/// Cuts a part of a random area, shape and place out of the image, at most all of it, and brings it
/// to a size; bilinear, without antialiasing.
Transform random_resized_crop(const RandomResizedCropOptions& options);

struct ColorJitterOptions {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;  ///< of images with three channels
  double hue = 0;         ///< likewise; at most 0.5, of a whole turn
};
/// Scales brightness, then contrast about the mean grey, then saturation, each by a factor from
/// [1 - v, 1 + v]; then turns the colours about the grey axis by up to `hue` to either side. Images
/// have values in [0, 1], so this comes before normalize.
Transform color_jitter(const ColorJitterOptions& options);

struct RandAugmentOptions {
  int64_t count = 2;     ///< changes, one after the other
  double magnitude = 9;  ///< of each, from 0 to 30
};
/// To each image `count` times one of thirteen changes, chosen at random: none, shear, translation
/// (each along both axes), rotation, brightness, colour, contrast, sharpness, posterise, solarise
/// and autocontrast, by the amounts of RandAugment (equalize is left out). Images have values in
/// [0, 1] and one or three channels; what comes in is 0.
Transform rand_augment(const RandAugmentOptions& options = {});

}  // namespace mica::data
