#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "mica/core/dims.h"
#include "mica/core/tensor.h"
#include "mica/ops/grid_sample/grid_sample.h"

// What transforms are made of.
namespace mica::data {

inline constexpr int64_t kIgnoredClass = -100;  // cross_entropy's

/// Tensors that a transform needs again and again, made once for each device and image size.
class Constants {
 public:
  using Make = std::function<Tensors(Size2 size)>;
  explicit Constants(Make make) : make_(std::move(make)) {}

  Tensors of(const Tensor& x);

 private:
  static constexpr size_t kMost = 8;
  struct Entry {
    Device device;
    Size2 size;
    Tensors tensors;
  };
  Make make_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// Parameter k of each image, (n, 1, 1, 1).
Tensor parameter(const Tensor& parameters, int64_t k);
/// Across, (1, 1, W, 1), and down, (1, H, 1, 1), where the middles of an image's pixels are if it
/// is [-1, 1].
Tensors pixel_centres(Size2 size);
/// Classes (n, H, W) i64 of the nearest pixels to the places of grid (n, H', W', 2).
Tensor sampled_classes(const Tensor& mask, const Tensor& grid, GridPadding padding);

/// The brightness of images (n, C, H, W) of one or three channels, (n, 1, H, W).
Tensor grey_of(const Tensor& x);
/// From `base` to x, and past it, in [0, 1].
Tensor blend(const Tensor& base, const Tensor& x, const Tensor& factor);

}  // namespace mica::data
