#include "mica/nn/dropout.h"

#include "mica/core/check.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica::nn {

namespace {

template <int kAxes>
Tensor drop_channels(const Tensor& x, double p, bool training) {
  check<ShapeError>(x.rank() == kAxes + 2, "dropout{}d: expected rank {}, got {}", kAxes, kAxes + 2,
                    x.shape());
  if (!training || p == 0) return x;
  Shape channels = Shape::filled(x.rank(), 1);
  channels[0] = x.size(0);
  channels[1] = x.size(1);
  return mul(x, dropout(ones(channels, {x.dtype(), x.device()}), p));
}

}  // namespace

namespace function {

Tensor dropout1d(const Tensor& x, double p, bool training) {
  return drop_channels<1>(x, p, training);
}
Tensor dropout2d(const Tensor& x, double p, bool training) {
  return drop_channels<2>(x, p, training);
}
Tensor dropout3d(const Tensor& x, double p, bool training) {
  return drop_channels<3>(x, p, training);
}

}  // namespace function

template <int kAxes>
Tensor ChannelDropoutImpl<kAxes>::forward(const Tensor& x) {
  return drop_channels<kAxes>(x, p, training());
}

template <int kAxes>
std::string ChannelDropoutImpl<kAxes>::describe() const {
  return nn::describe(fmt::format("Dropout{}d", kAxes), DropoutParams{p});
}

template struct ChannelDropoutImpl<1>;
template struct ChannelDropoutImpl<2>;
template struct ChannelDropoutImpl<3>;

}  // namespace mica::nn
