#include "mica/nn/dropout.h"

#include "mica/core/check.h"

namespace mica::nn {

template <int kAxes>
Tensor ChannelDropoutImpl<kAxes>::forward(const Tensor& x) {
  if constexpr (kAxes == 1) return dropout1d(x, p, training());
  if constexpr (kAxes == 2) return dropout2d(x, p, training());
  return dropout3d(x, p, training());
}

template <int kAxes>
std::string ChannelDropoutImpl<kAxes>::describe() const {
  return nn::describe(fmt::format("Dropout{}d", kAxes), DropoutParams{p});
}

template struct ChannelDropoutImpl<1>;
template struct ChannelDropoutImpl<2>;
template struct ChannelDropoutImpl<3>;

}  // namespace mica::nn
