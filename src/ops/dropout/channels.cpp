#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

Tensor drop_channels(const Tensor& x, double p, bool training, int axes) {
  check<ShapeError>(x.rank() >= 2 && x.rank() <= axes + 2,
                    "dropout{}d: expected rank 2 to {}, got {}", axes, axes + 2, x.shape());
  if (!training || p == 0) return x;
  Shape channels = Shape::filled(x.rank(), 1);
  channels[0] = x.size(0);
  channels[1] = x.size(1);
  return mul(x, dropout(ones(channels, {x.dtype(), x.device()}), p));
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, bool training) {
  return drop_channels(x, p, training, 1);
}
Tensor dropout2d(const Tensor& x, double p, bool training) {
  return drop_channels(x, p, training, 2);
}
Tensor dropout3d(const Tensor& x, double p, bool training) {
  return drop_channels(x, p, training, 3);
}

Functions channel_dropout_functions() {
  const auto drop = [](const char* name, Tensor (*f)(const Tensor&, double, bool),
                       const char* doc) {
    return Function{
        .name = name,
        .doc = doc,
        .signatures = {{f, {"input", {"p", 0.5}, {"training", true}, ignored_inplace()}}},
        .offer = kFunctional};
  };
  return {drop("dropout1d", dropout1d,
               "input (N, C, L), or with fewer axes behind C, with each channel zero with "
               "probability p, in [0, 1), and the "
               "others times 1 / (1 - p); input itself unless training."),
          drop("dropout2d", dropout2d,
               "input (N, C, H, W), or with fewer axes behind C, with each channel zero with "
               "probability p, in [0, 1), and the "
               "others times 1 / (1 - p); input itself unless training."),
          drop("dropout3d", dropout3d,
               "input (N, C, D, H, W), or with fewer axes behind C, with each channel zero with "
               "probability p, in [0, 1), and "
               "the others times 1 / (1 - p); input itself unless training.")};
}

}  // namespace mica
