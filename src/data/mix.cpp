#include "mica/data/mix.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "mica/core/check.h"
#include "mica/data/transform_parts.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

/// Where the distribution Beta(alpha, alpha) reaches i / (n - 1), for n places i: with these a
/// uniform number becomes one of the distribution, without a loop that draws again.
std::vector<float> beta_quantiles(double alpha, size_t n) {
  // The density by its logarithm at the middles of many small steps, denser towards both ends.
  constexpr int kSteps = 1 << 14;
  std::vector<double> at(kSteps + 1);
  std::vector<double> below(kSteps + 1, 0);
  for (int i = 0; i <= kSteps; ++i) {
    const double s = std::sin(M_PI / 2 * static_cast<double>(i) / kSteps);
    at[static_cast<size_t>(i)] = s * s;
  }
  for (size_t i = 1; i <= kSteps; ++i) {
    const double middle = (at[i - 1] + at[i]) / 2;
    below[i] = below[i - 1] + std::exp((alpha - 1) * (std::log(middle) + std::log1p(-middle))) *
                                  (at[i] - at[i - 1]);
  }
  std::vector<float> quantiles(n);
  size_t i = 1;
  for (size_t k = 0; k < n; ++k) {
    const double wanted = below[kSteps] * static_cast<double>(k) / static_cast<double>(n - 1);
    while (i < kSteps && below[i] < wanted) ++i;
    const double part = (wanted - below[i - 1]) / std::max(below[i] - below[i - 1], 1e-300);
    quantiles[k] = static_cast<float>(at[i - 1] + std::clamp(part, 0.0, 1.0) * (at[i] - at[i - 1]));
  }
  return quantiles;
}

constexpr int64_t kPlaces = 1024;

/// The quantiles on the device of x, made once.
Tensor quantiles_for(double alpha, const Tensor& x) {
  static std::mutex mutex;
  static auto* const known = new std::map<double, std::shared_ptr<Constants>>;
  std::shared_ptr<Constants> constants;
  {
    const std::lock_guard lock(mutex);
    std::shared_ptr<Constants>& entry = (*known)[alpha];
    if (!entry)
      entry = std::make_shared<Constants>(
          [alpha](Size2) { return Tensors{tensor(beta_quantiles(alpha, kPlaces), {kPlaces})}; });
    constants = entry;
  }
  return constants->of(x)[0];
}

/// A number of Beta(alpha, alpha), f32 [] on the device of images x.
Tensor draw_share(double alpha, const Tensor& x) {
  const TensorOptions options = {.device = x.device()};
  if (alpha == 1) return uniform({}, 0, 1, options);
  const Tensor table = quantiles_for(alpha, x);
  const Tensor at = uniform({1}, 0, kPlaces - 1, options);
  const Tensor below = floor(at);
  const Tensor i = cast(below, DType::i64);
  const Tensor low = index_select(table, 0, i);
  const Tensor high = index_select(table, 0, add(i, 1));
  return reshape(add(low, mul(sub(high, low), sub(at, below))), {});
}

void check_batch(const char* name, const Tensor& x, const Tensor& y, const MixOptions& o) {
  check<ShapeError>(x.rank() == 4 && y.rank() == 1 && y.size(0) == x.size(0),
                    "data::{}: expected images (N, C, H, W) and classes (N), got {} and {}", name,
                    x.shape(), y.shape());
  check<DTypeError>(is_floating(x.dtype()) && y.dtype() == DType::i64,
                    "data::{}: expected floating images and classes of i64, got {} and {}", name,
                    x.dtype(), y.dtype());
  check(o.classes >= 1 && o.alpha > 0,
        "data::{}: expected a number of classes and an alpha above 0, got {} and {}", name,
        o.classes, o.alpha);
}

/// share of a, and the rest of what stands before a's rows.
Tensor mixed(const Tensor& a, const Tensor& share) {
  return add(mul(a, share), mul(roll(a, {1}, {0}), sub(1, share)));
}

Tensor classes_of(const Tensor& y, int64_t classes) {
  return cast(one_hot(y, classes), DType::f32);
}

}  // namespace

Mixed mixup(const Tensor& x, const Tensor& y, const MixOptions& o) {
  check_batch("mixup", x, y, o);
  const Tensor share = draw_share(o.alpha, x);
  return {cast(mixed(x, share), x.dtype()), mixed(classes_of(y, o.classes), share)};
}

Mixed cutmix(const Tensor& x, const Tensor& y, const MixOptions& o) {
  check_batch("cutmix", x, y, o);
  const TensorOptions options = {.device = x.device()};
  const Tensor side = mul(sqrt(sub(1, draw_share(o.alpha, x))), 0.5);
  // From a middle anywhere in the image, half a side each way, as far as the image goes.
  const auto inside = [&](int64_t n) {
    const auto size = static_cast<double>(n);
    const Tensor middle = floor(uniform({}, 0, size, options));
    const Tensor half = floor(mul(side, size));
    const Tensor at = cast(arange(n, {.dtype = DType::i64, .device = x.device()}), DType::f32);
    return logical_and(ge(at, sub(middle, half)), lt(at, add(middle, half)));
  };
  const Tensor rows = reshape(inside(x.size(2)), {x.size(2), 1});
  const Tensor box = logical_and(rows, inside(x.size(3)));  // (H, W)
  const Tensor share = sub(1, mean(cast(box, DType::f32)));
  return {where(box, roll(x, {1}, {0}), x), mixed(classes_of(y, o.classes), share)};
}

}  // namespace mica::data
