#include "mica/data/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numbers>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/op/dispatch.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

constexpr int64_t kLanes = 4;  // random words of a block

/// What is computed while it lives has its values at once, even where a function is captured.
class AtOnce {
 public:
  AtOnce() = default;
  ~AtOnce() { exchange_recorder(before_); }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;

 private:
  Recorder* before_ = exchange_recorder(nullptr);
};

/// Tensors that a transform needs again and again, made once for each device and image size.
class Constants {
 public:
  using Make = std::function<Tensors(Size2 size)>;
  explicit Constants(Make make) : make_(std::move(make)) {}

  Tensors of(const Tensor& x) {
    const Size2 size(x.size(2), x.size(3));
    const std::lock_guard lock(mutex_);
    for (const Entry& e : entries_)
      if (e.device == x.device() && e.size == size) return e.tensors;
    const AtOnce guard;
    Tensors made = make_(size);
    for (Tensor& t : made) t = to(t, x.device());
    if (entries_.size() >= kMost) entries_.erase(entries_.begin());
    entries_.push_back({x.device(), size, made});
    return made;
  }

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
Tensor parameter(const Tensor& parameters, int64_t k) {
  return reshape(narrow(parameters, 1, k, 1), {parameters.size(0), 1, 1, 1});
}

Transform flip_axis(const char* name, int64_t axis, double p) {
  check(p >= 0 && p <= 1, "data::{}: expected a probability in [0, 1], got {}", name, p);
  return {name, 1, [p](std::span<float> v) { v[0] = v[0] < static_cast<float>(p) ? 1.0F : 0.0F; },
          [axis](const Tensor& x, const Tensor& v) {
            return where(gt(parameter(v, 0), 0.5), mica::flip(x, {axis}), x);
          }};
}

Tensor row(const std::vector<float>& values) {
  return tensor(values, {1, static_cast<int64_t>(values.size()), 1, 1});
}

/// Pixels where they are before the rotation, with the image in [-1, 1] and its middle at 0.
Tensors pixel_centres(Size2 size) {
  const auto along = [](int64_t n) {
    std::vector<float> at(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      at[static_cast<size_t>(i)] =
          static_cast<float>((2.0 * static_cast<double>(i) + 1) / static_cast<double>(n) - 1);
    return at;
  };
  return {tensor(along(size.w), {1, 1, size.w, 1}), tensor(along(size.h), {1, size.h, 1, 1})};
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

Transform::Transform(std::string name, int64_t count, Draw draw, Apply apply)
    : name_(std::move(name)), count_(count), draw_(std::move(draw)), apply_(std::move(apply)) {
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
            const Tensor window = constants->of(x)[0];
            const Tensor padded =
                flatten(pad(x, {.before = {padding, padding}, .after = {padding, padding}}), 2);
            const Tensor at = cast(v, DType::i64);
            const int64_t width = x.size(3) + 2 * padding;
            const Tensor start =
                add(mul(narrow(at, 1, 0, 1), width), narrow(at, 1, 1, 1));  // (n, 1)
            const Tensor index = add(window, unsqueeze(start, 2));          // (n, 1, H · W)
            return reshape(take_along_axis(padded, index, 2), x.shape());
          }};
}

Transform flip(double p) { return flip_axis("flip", 3, p); }
Transform vertical_flip(double p) { return flip_axis("vertical_flip", 2, p); }

Transform rotate(double degrees) {
  check(degrees >= 0 && degrees <= 180, "data::rotate: expected 0 to 180 degrees, got {}", degrees);
  auto constants = std::make_shared<Constants>(pixel_centres);
  return {"rotate", 2,
          [degrees](std::span<float> v) {
            const double angle =
                (2 * static_cast<double>(v[0]) - 1) * degrees / 180 * std::numbers::pi;
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
            return grid_sample(x, concat({from_x, from_y}, 3));
          }};
}

Transform resize(Size2 size) {
  check<ShapeError>(size.h > 0 && size.w > 0, "data::resize: expected a size above 0, got {}",
                    size);
  return {"resize", [size](const Tensor& x) {
            if (Size2(x.size(2), x.size(3)) == size) return x;
            return upsample(x, {.size = {size.h, size.w}, .mode = UpsampleMode::bilinear});
          }};
}

Transform color_jitter(const ColorJitterOptions& options) {
  const std::array<double, 3> ranges = {options.brightness, options.contrast, options.saturation};
  const double hue = options.hue;
  for (const double range : ranges)
    check(range >= 0, "data::color_jitter: expected ranges of at least 0, got {}", range);
  check(hue >= 0 && hue <= 0.5, "data::color_jitter: expected a hue in [0, 0.5], got {}", hue);
  const auto grey_of = [](const Tensor& x) {
    if (x.size(1) == 1) return x;
    check<ShapeError>(x.size(1) == 3, "data::color_jitter: expected 1 or 3 channels, got {}",
                      x.shape());
    return add(add(mul(narrow(x, 1, 0, 1), 0.299), mul(narrow(x, 1, 1, 1), 0.587)),
               mul(narrow(x, 1, 2, 1), 0.114));
  };
  /// From `base` to x, and past it.
  const auto blend = [](const Tensor& base, const Tensor& x, const Tensor& factor) {
    return clamp(add(base, mul(sub(x, base), factor)), 0, 1);
  };
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
          [ranges, hue, grey_of, blend](const Tensor& x, const Tensor& v) {
            Tensor y = x;
            if (ranges[0] > 0) y = clamp(mul(y, parameter(v, 0)), 0, 1);
            if (ranges[1] > 0) y = blend(mean(grey_of(y), {1, 2, 3}, true), y, parameter(v, 1));
            if (ranges[2] > 0 && y.size(1) > 1) y = blend(grey_of(y), y, parameter(v, 2));
            if (hue > 0 && y.size(1) > 1) y = turned_colours(y, parameter(v, 3), parameter(v, 4));
            return y;
          }};
}

}  // namespace mica::data
