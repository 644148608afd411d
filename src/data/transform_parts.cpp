#include "mica/data/transform_parts.h"

#include <mutex>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

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

}  // namespace

Tensors Constants::of(const Tensor& x) {
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

Tensor parameter(const Tensor& parameters, int64_t k) {
  return reshape(narrow(parameters, 1, k, 1), {parameters.size(0), 1, 1, 1});
}

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

Tensor sampled_classes(const Tensor& mask, const Tensor& grid, GridPadding padding) {
  // Zeros that come in from outside stand for the class that is left out.
  const Tensor from = cast(sub(unsqueeze(mask, 1), kIgnoredClass), DType::f32);
  const Tensor moved = grid_sample(from, grid, {.mode = GridMode::nearest, .padding = padding});
  return add(cast(squeeze(moved, {1}), DType::i64), kIgnoredClass);
}

Tensor grey_of(const Tensor& x) {
  if (x.size(1) == 1) return x;
  check<ShapeError>(x.size(1) == 3, "data: expected images of 1 or 3 channels, got {}", x.shape());
  return add(add(mul(narrow(x, 1, 0, 1), 0.299), mul(narrow(x, 1, 1, 1), 0.587)),
             mul(narrow(x, 1, 2, 1), 0.114));
}

Tensor blend(const Tensor& base, const Tensor& x, const Tensor& factor) {
  return clamp(add(base, mul(sub(x, base), factor)), 0, 1);
}

}  // namespace mica::data
