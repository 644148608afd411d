#include "mica/data/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/data/transform_parts.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

constexpr int64_t kLanes = 4;  // random words of a block

Transform flip_axis(const char* name, int64_t axis, double p) {
  check(p >= 0 && p <= 1, "data::{}: expected a probability in [0, 1], got {}", name, p);
  return {name, 1, [p](std::span<float> v) { v[0] = v[0] < static_cast<float>(p) ? 1.0F : 0.0F; },
          [axis](const Tensor& x, const Tensor& v) {
            return where(gt(parameter(v, 0), 0.5), mica::flip(x, {axis}), x);
          },
          [axis](const Tensor& mask, const Tensor& v) {
            return where(gt(reshape(v, {v.size(0), 1, 1}), 0.5), mica::flip(mask, {axis - 1}),
                         mask);
          }};
}

Tensor row(const std::vector<float>& values) {
  return tensor(values, {1, static_cast<int64_t>(values.size()), 1, 1});
}

/// Windows of the size of x (n, C, H, W) out of x with `padding` pixels of a value around it, whose
/// first pixels are v (n, 2); `window` is where those of the first window lie in it, flattened.
Tensor cut_out(const Tensor& x, const Tensor& v, int64_t padding, double value,
               const Tensor& window) {
  const Tensor padded = flatten(
      pad(x, {.before = {padding, padding}, .after = {padding, padding}, .value = Number(value)}),
      2);
  const Tensor at = cast(v, DType::i64);
  const int64_t width = x.size(3) + 2 * padding;
  const Tensor start = add(mul(narrow(at, 1, 0, 1), width), narrow(at, 1, 1, 1));  // (n, 1)
  const Tensor index = add(window, unsqueeze(start, 2));                           // (n, 1, H · W)
  return reshape(take_along_axis(padded, index, 2), x.shape());
}

/// Moves pixels: `grid_of` says where in x (n, C, H, W), in [-1, 1], those of the result come from.
Transform moving(std::string name, int64_t count, Transform::Draw draw,
                 std::function<Tensor(const Tensor& x, const Tensor& v)> grid_of,
                 GridPadding padding) {
  return {std::move(name), count, std::move(draw),
          [grid_of, padding](const Tensor& x, const Tensor& v) {
            return grid_sample(x, grid_of(x, v), {.padding = padding});
          },
          [grid_of, padding](const Tensor& mask, const Tensor& v) {
            return sampled_classes(mask, grid_of(unsqueeze(mask, 1), v), padding);
          }};
}

/// Colours (n, 3, H, W) turned about the axis of greys, on which all three are equal.
Tensor turned_colours(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  check<ShapeError>(x.size(1) == 3, "data::color_jitter: expected 1 or 3 channels, got {}",
                    x.shape());
  const Tensor grey = mean(x, {1}, true);
  const Tensor across = mul(sub(roll(x, {1}, {1}), roll(x, {2}, {1})), 1 / std::numbers::sqrt3);
  const Tensor y = add(add(grey, mul(sub(x, grey), cosine)), mul(across, sine));
  return clamp(y, 0, 1);
}

}  // namespace

Transform::Transform(std::string name, std::function<Tensor(const Tensor& x)> apply)
    : name_(std::move(name)),
      apply_([f = std::move(apply)](const Tensor& x, const Tensor&) { return f(x); }) {}

Transform::Transform(std::string name, int64_t count, Draw draw, Apply apply, Apply apply_mask)
    : name_(std::move(name)),
      count_(count),
      draw_(std::move(draw)),
      apply_(std::move(apply)),
      apply_mask_(std::move(apply_mask)) {
  check(count >= 0, "data::{}: expected at least 0 parameters, got {}", name_, count);
}

Tensor Transform::operator()(const Tensor& x, std::span<const int64_t> indices,
                             const RandomStream& stream) const {
  const Tensor parameters = draw(indices, stream);
  return apply(x, parameters.defined() ? to(parameters, x.device()) : parameters);
}

Tensor Transform::draw(std::span<const int64_t> indices, const RandomStream& stream) const {
  if (count_ == 0) return {};
  // A key of its own for each epoch and position, apart from the seed's own stream, which shuffles.
  constexpr uint64_t kApart = 0x9E3779B97F4A7C15ULL;
  constexpr uint64_t kMostPositions = 1024;
  const uint64_t which =
      static_cast<uint64_t>(stream.epoch) * kMostPositions + static_cast<uint64_t>(stream.position);
  const Philox4 words = philox(stream.seed ^ kApart, which);
  const uint64_t key = uint64_t{words.v[1]} << 32 | words.v[0];

  const auto count = static_cast<size_t>(count_);
  const auto blocks = static_cast<uint64_t>((count_ + kLanes - 1) / kLanes);
  std::vector<float> all(indices.size() * count);
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::span<float> numbers(all.data() + i * count, count);
    Philox4 block{};
    for (size_t k = 0; k < count; ++k) {
      if (k % kLanes == 0)
        block = philox(key, static_cast<uint64_t>(indices[i]) * blocks + k / kLanes);
      numbers[k] = unit_float(block.v[k % kLanes]);
    }
    draw_(numbers);
  }
  return tensor(all, {static_cast<int64_t>(indices.size()), count_});
}

Tensor Transform::apply(const Tensor& x, const Tensor& parameters) const {
  check<ShapeError>(x.rank() == 4 && x.dtype() == DType::f32,
                    "data::{}: expected images f32 (n, C, H, W), got {}", name_, x.spec());
  if (count_ > 0)
    check<ShapeError>(parameters.shape() == Shape{x.size(0), count_},
                      "data::{}: expected parameters of {} images, got {}", name_, x.size(0),
                      parameters.shape());
  if (x.numel() == 0) return x;
  const NoGrad guard;
  return apply_(x, parameters);
}

Tensor Transform::apply_mask(const Tensor& mask, const Tensor& parameters) const {
  check<ShapeError>(mask.rank() == 3 && mask.dtype() == DType::i64,
                    "data::{}: expected the classes of pixels i64 (n, H, W), got {}", name_,
                    mask.spec());
  if (!apply_mask_ || mask.numel() == 0) return mask;
  const NoGrad guard;
  return apply_mask_(mask, parameters);
}

Transform normalize(const std::vector<float>& mean, const std::vector<float>& std) {
  check(!mean.empty() && mean.size() == std.size(),
        "data::normalize: expected a mean and a deviation for each channel, got {} and {}",
        mean.size(), std.size());
  for (const float s : std) check(s > 0, "data::normalize: expected deviations above 0, got {}", s);
  auto constants =
      std::make_shared<Constants>([mean, std](Size2) { return Tensors{row(mean), row(std)}; });
  return {"normalize", [constants](const Tensor& x) {
            const Tensors c = constants->of(x);
            check<ShapeError>(c[0].numel() == 1 || c[0].numel() == x.size(1),
                              "data::normalize: expected {} channels, got {}", c[0].numel(),
                              x.shape());
            return div(sub(x, c[0]), c[1]);
          }};
}

Transform pad_crop(int64_t padding) {
  check(padding >= 0 && padding < 1 << 15, "data::pad_crop: expected a padding from 0, got {}",
        padding);
  const auto places = static_cast<float>(2 * padding + 1);
  // Where the pixels of an image's first window lie in the padded image, which is flattened.
  auto constants = std::make_shared<Constants>([padding](Size2 size) {
    const int64_t width = size.w + 2 * padding;
    const Tensor rows = reshape(mul(arange(size.h), width), {1, size.h, 1});
    return Tensors{reshape(add(rows, arange(size.w)), {1, 1, size.h * size.w})};
  });
  return {"pad_crop", 2,
          [places](std::span<float> v) {
            for (float& number : v) number = std::floor(number * places);
          },
          [padding, constants](const Tensor& x, const Tensor& v) {
            return cut_out(x, v, padding, 0, constants->of(x)[0]);
          },
          [padding, constants](const Tensor& mask, const Tensor& v) {
            const Tensor x = unsqueeze(mask, 1);
            return squeeze(cut_out(x, v, padding, kIgnoredClass, constants->of(x)[0]), {1});
          }};
}

Transform flip(double p) { return flip_axis("flip", 3, p); }
Transform vertical_flip(double p) { return flip_axis("vertical_flip", 2, p); }

Transform rotate(double degrees) {
  check(degrees >= 0 && degrees <= 180, "data::rotate: expected 0 to 180 degrees, got {}", degrees);
  auto constants = std::make_shared<Constants>(pixel_centres);
  return moving(
      "rotate", 2,
      [degrees](std::span<float> v) {
        const double angle = (2 * static_cast<double>(v[0]) - 1) * degrees / 180 * std::numbers::pi;
        v[0] = static_cast<float>(std::cos(angle));
        v[1] = static_cast<float>(std::sin(angle));
      },
      [constants](const Tensor& x, const Tensor& v) {
        const Tensors at = constants->of(x);
        const Tensor cosine = parameter(v, 0);
        const Tensor sine = parameter(v, 1);
        const double ratio = static_cast<double>(x.size(2)) / static_cast<double>(x.size(3));
        const Tensor from_x = sub(mul(cosine, at[0]), mul(mul(sine, ratio), at[1]));
        const Tensor from_y = add(mul(div(sine, ratio), at[0]), mul(cosine, at[1]));
        return concat({from_x, from_y}, 3);
      },
      GridPadding::zeros);
}

Transform resize(Size2 size) {
  check<ShapeError>(size.h > 0 && size.w > 0, "data::resize: expected a size above 0, got {}",
                    size);
  const auto to_size = [size](const Tensor& x, UpsampleMode mode) {
    if (Size2(x.size(2), x.size(3)) == size) return x;
    return upsample(x, {.size = {size.h, size.w}, .mode = mode});
  };
  return {"resize",
          0,
          {},
          [to_size](const Tensor& x, const Tensor&) { return to_size(x, UpsampleMode::bilinear); },
          [to_size](const Tensor& mask, const Tensor&) {
            const Tensor x = cast(unsqueeze(mask, 1), DType::f32);
            return cast(squeeze(to_size(x, UpsampleMode::nearest), {1}), DType::i64);
          }};
}

Transform random_resized_crop(const RandomResizedCropOptions& o) {
  check<ShapeError>(o.size.h > 0 && o.size.w > 0,
                    "data::random_resized_crop: expected a size above 0, got {}", o.size);
  check(o.least > 0 && o.least <= o.most && o.most <= 1 && o.ratio >= 1,
        "data::random_resized_crop: expected 0 < least <= most <= 1 and a ratio of at least 1, got "
        "{}, {} and {}",
        o.least, o.most, o.ratio);
  auto constants =
      std::make_shared<Constants>([size = o.size](Size2) { return pixel_centres(size); });
  return moving(
      "random_resized_crop", 4,
      [o](std::span<float> v) {
        v[0] = static_cast<float>(o.least + (o.most - o.least) * static_cast<double>(v[0]));
        v[1] =
            static_cast<float>(std::exp((2 * static_cast<double>(v[1]) - 1) * std::log(o.ratio)));
      },
      [constants](const Tensor& x, const Tensor& v) {
        const Tensors at = constants->of(x);
        // The part's sides, of the image's: their product is the area, their ratio in pixels v[1].
        const double shape = static_cast<double>(x.size(2)) / static_cast<double>(x.size(3));
        const Tensor area = parameter(v, 0);
        const Tensor ratio = mul(parameter(v, 1), shape);
        const Tensor w = clamp(sqrt(mul(area, ratio)), 0, 1);
        const Tensor h = clamp(sqrt(div(area, ratio)), 0, 1);
        // Of its middle, where the image is [-1, 1].
        const auto middle = [&](const Tensor& side, int64_t k) {
          return mul(sub(mul(parameter(v, k), 2), 1), sub(1, side));
        };
        const Tensor zero = zeros_like(add(at[0], at[1]));
        const Tensor from_x = add(add(mul(at[0], w), middle(w, 2)), zero);
        const Tensor from_y = add(add(mul(at[1], h), middle(h, 3)), zero);
        return concat({from_x, from_y}, 3);
      },
      GridPadding::border);
}

Transform color_jitter(const ColorJitterOptions& options) {
  const std::array<double, 3> ranges = {options.brightness, options.contrast, options.saturation};
  const double hue = options.hue;
  for (const double range : ranges)
    check(range >= 0, "data::color_jitter: expected ranges of at least 0, got {}", range);
  check(hue >= 0 && hue <= 0.5, "data::color_jitter: expected a hue in [0, 0.5], got {}", hue);
  return {"color_jitter", 5,
          [ranges, hue](std::span<float> v) {
            for (size_t k = 0; k < ranges.size(); ++k) {
              const double low = std::max(0.0, 1 - ranges[k]);
              v[k] = static_cast<float>(low + (1 + ranges[k] - low) * static_cast<double>(v[k]));
            }
            const double angle = (2 * static_cast<double>(v[3]) - 1) * hue * 2 * std::numbers::pi;
            v[3] = static_cast<float>(std::cos(angle));
            v[4] = static_cast<float>(std::sin(angle));
          },
          [ranges, hue](const Tensor& x, const Tensor& v) {
            Tensor y = x;
            if (ranges[0] > 0) y = clamp(mul(y, parameter(v, 0)), 0, 1);
            if (ranges[1] > 0) y = blend(mean(grey_of(y), {1, 2, 3}, true), y, parameter(v, 1));
            if (ranges[2] > 0 && y.size(1) > 1) y = blend(grey_of(y), y, parameter(v, 2));
            if (hue > 0 && y.size(1) > 1) y = turned_colours(y, parameter(v, 3), parameter(v, 4));
            return y;
          }};
}

}  // namespace mica::data
