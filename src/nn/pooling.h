#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/pool/pool.h"

namespace mica::nn {

/// `MaxPool2d(2)` or `MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})`.
using MaxPool1d = OpLayer<"MaxPool1d", max_pool1d, MaxPoolOptions<int64_t>>;
using MaxPool2d = OpLayer<"MaxPool2d", max_pool2d, MaxPool2dParams>;
using MaxPool3d = OpLayer<"MaxPool3d", max_pool3d, MaxPoolOptions<Size3>>;
using AvgPool1d = OpLayer<"AvgPool1d", avg_pool1d, AvgPoolOptions<int64_t>>;
using AvgPool2d = OpLayer<"AvgPool2d", avg_pool2d, AvgPool2dParams>;
using AvgPool3d = OpLayer<"AvgPool3d", avg_pool3d, AvgPoolOptions<Size3>>;

/// To an output of this size: `AdaptiveAvgPool2d(7)` or `AdaptiveAvgPool2d({7, 5})`.
using AdaptiveAvgPool1d = OpLayer<"AdaptiveAvgPool1d", adaptive_avg_pool1d, int64_t>;
using AdaptiveAvgPool2d = OpLayer<"AdaptiveAvgPool2d", adaptive_avg_pool2d, Size2>;
using AdaptiveAvgPool3d = OpLayer<"AdaptiveAvgPool3d", adaptive_avg_pool3d, Size3>;
using AdaptiveMaxPool1d = OpLayer<"AdaptiveMaxPool1d", adaptive_max_pool1d, int64_t>;
using AdaptiveMaxPool2d = OpLayer<"AdaptiveMaxPool2d", adaptive_max_pool2d, Size2>;
using AdaptiveMaxPool3d = OpLayer<"AdaptiveMaxPool3d", adaptive_max_pool3d, Size3>;

/// The p-norm of each window: `LPPool2d({.p = 2, .kernel = 3})`.
template <class Size>
struct LPPoolOptions {
  double p = 2;
  Size kernel = 2;
  Size stride = 0;  ///< 0 means the kernel's size
  bool ceil_mode = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("p", self.p);
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("ceil_mode", self.ceil_mode);
  }
};

namespace function {

inline Tensor lp_pool1d(const Tensor& x, const LPPoolOptions<int64_t>& o) {
  return mica::lp_pool1d(x, o.p, {o.kernel, o.stride, o.ceil_mode});
}
inline Tensor lp_pool2d(const Tensor& x, const LPPoolOptions<Size2>& o) {
  return mica::lp_pool2d(x, o.p, {o.kernel, o.stride, o.ceil_mode});
}

}  // namespace function

using LPPool1d = OpLayer<"LPPool1d", function::lp_pool1d, LPPoolOptions<int64_t>>;
using LPPool2d = OpLayer<"LPPool2d", function::lp_pool2d, LPPoolOptions<Size2>>;

}  // namespace mica::nn
