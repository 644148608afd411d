#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include "mica/core/check.h"
#include "mica/data/transform_parts.h"
#include "mica/data/transforms.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

// The parameters of one change; all but those of the one that was chosen change nothing. The first
// six say where pixels come from: (x, y) from (a x + b y + dx, c x + d y + dy).
enum Slot { kA, kB, kDx, kC, kD, kDy, kBright, kColour, kContrast, kSharp, kStep, kLimit, kAuto };
constexpr int64_t kSlots = kAuto + 1;
constexpr int kChanges = 13;

/// From two random numbers, which stand in the first places.
void draw_change(std::span<float> v, double strength) {
  const int chosen = static_cast<int>(v[0] * kChanges);
  const double sign = v[1] < 0.5F ? -1 : 1;
  const double factor = 1 + sign * 0.9 * strength;
  const std::array<float, kSlots> none = {1, 0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 2, 0};
  std::copy(none.begin(), none.end(), v.begin());
  const auto set = [&](Slot slot, double value) { v[slot] = static_cast<float>(value); };
  switch (chosen) {
    case 0:
      return;
    case 1:
      return set(kB, sign * 0.3 * strength);
    case 2:
      return set(kC, sign * 0.3 * strength);
    case 3:  // the image is 2 wide
      return set(kDx, 2 * sign * 150.0 / 331 * strength);
    case 4:
      return set(kDy, 2 * sign * 150.0 / 331 * strength);
    case 5: {
      const double angle = sign * strength * std::numbers::pi / 6;
      set(kA, std::cos(angle));
      set(kB, -std::sin(angle));
      set(kC, std::sin(angle));
      return set(kD, std::cos(angle));
    }
    case 6:
      return set(kBright, factor);
    case 7:
      return set(kColour, factor);
    case 8:
      return set(kContrast, factor);
    case 9:
      return set(kSharp, factor);
    case 10:
      return set(kStep, std::exp2(std::round(4 * strength)));
    case 11:
      return set(kLimit, 1 - strength);
    default:
      return set(kAuto, 1);
  }
}

Tensor grid_of(const Tensor& x, const Tensor& v, const Tensors& at) {
  const double ratio = static_cast<double>(x.size(2)) / static_cast<double>(x.size(3));
  const auto p = [&](Slot slot) { return parameter(v, slot); };
  const Tensor from_x = add(add(mul(p(kA), at[0]), mul(mul(p(kB), ratio), at[1])), p(kDx));
  const Tensor from_y = add(add(mul(div(p(kC), ratio), at[0]), mul(p(kD), at[1])), p(kDy));
  return concat({from_x, from_y}, 3);
}

/// Each pixel mixed with those around it; those of the border stay.
Tensor smooth(const Tensor& x) {
  const int64_t channels = x.size(1);
  const TensorOptions options = {.device = x.device()};
  const Tensor kernel = full({channels, 1, 3, 3}, 1.0 / 13, options);
  const Tensor around = conv2d(x, kernel, {}, {.groups = channels});
  const Tensor inner = slice(slice(x, 2, 1, x.size(2) - 1), 3, 1, x.size(3) - 1);
  const Tensor mixed = add(around, mul(inner, 4.0 / 13));
  return add(x, pad(sub(mixed, inner), {.before = {1, 1}, .after = {1, 1}}));
}

Tensor recoloured(const Tensor& x, const Tensor& v) {
  const auto p = [&](Slot slot) { return parameter(v, slot); };
  Tensor y = clamp(mul(x, p(kBright)), 0, 1);
  y = blend(grey_of(y), y, p(kColour));
  y = blend(mean(grey_of(y), {1, 2, 3}, true), y, p(kContrast));
  if (x.size(2) > 2 && x.size(3) > 2) y = blend(smooth(y), y, p(kSharp));
  const Tensor step = clamp(p(kStep), 1, 256);
  y = where(gt(p(kStep), 0.5), mul(mul(floor(div(mul(y, 255), step)), step), 1.0 / 255), y);
  y = where(ge(y, p(kLimit)), sub(1, y), y);
  const Tensor low = min(y, {2, 3}, true);
  const Tensor range = sub(max(y, {2, 3}, true), low);
  const Tensor stretched = div(sub(y, low), where(gt(range, 0), range, 1.0));
  return where(logical_and(gt(p(kAuto), 0.5), gt(range, 0)), stretched, y);
}

}  // namespace

Transform rand_augment(const RandAugmentOptions& o) {
  check(o.count >= 1 && o.count <= 16, "data::rand_augment: expected 1 to 16 changes, got {}",
        o.count);
  check(o.magnitude >= 0 && o.magnitude <= 30,
        "data::rand_augment: expected a magnitude from 0 to 30, got {}", o.magnitude);
  auto constants = std::make_shared<Constants>(pixel_centres);
  const double strength = o.magnitude / 30;
  const auto change = [](const Tensor& v, int64_t i) { return narrow(v, 1, i * kSlots, kSlots); };
  return {"rand_augment", o.count * kSlots,
          [strength](std::span<float> v) {
            for (size_t at = 0; at < v.size(); at += kSlots)
              draw_change(v.subspan(at, kSlots), strength);
          },
          [constants, change, n = o.count](const Tensor& x, const Tensor& v) {
            Tensor y = x;
            for (int64_t i = 0; i < n; ++i) {
              const Tensor one = change(v, i);
              y = recoloured(grid_sample(y, grid_of(y, one, constants->of(y))), one);
            }
            return y;
          },
          [constants, change, n = o.count](const Tensor& mask, const Tensor& v) {
            Tensor y = mask;
            for (int64_t i = 0; i < n; ++i) {
              const Tensor x = unsqueeze(y, 1);
              y = sampled_classes(y, grid_of(x, change(v, i), constants->of(x)),
                                  GridPadding::zeros);
            }
            return y;
          }};
}

}  // namespace mica::data
