#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/pool/pool.h"

namespace mica::nn {

template <class Size>
struct MaxPoolLayerOptions {
  Size kernel = 2;
  Size stride = 0;  ///< 0 means the kernel's size
  Size padding = 0;
  Size dilation = 1;
  bool ceil_mode = false;
  /// Called with Values, as Python and a Sequential call it, the layer gives values and indices.
  bool return_indices = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
    f("ceil_mode", self.ceil_mode);
    f("return_indices", self.return_indices);
  }
};

namespace function {

template <class Size>
MaxPoolOptions<Size> pooling_of(const MaxPoolLayerOptions<Size>& o) {
  return {o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode};
}
template <class Size, Tensor (*f)(const Tensor&, const MaxPoolOptions<Size>&)>
Tensor max_pool(const Tensor& x, const MaxPoolLayerOptions<Size>& o) {
  return f(x, pooling_of(o));
}

}  // namespace function

template <FixedString type, class Size, Tensor (*f)(const Tensor&, const MaxPoolOptions<Size>&),
          PooledWithIndices (*with_indices)(const Tensor&, const MaxPoolOptions<Size>&)>
struct MaxPoolImpl : OpImpl<type, function::max_pool<Size, f>, MaxPoolLayerOptions<Size>> {
  using OpImpl<type, function::max_pool<Size, f>, MaxPoolLayerOptions<Size>>::OpImpl;

  /// `forward` gives the values alone.
  PooledWithIndices forward_with_indices(const Tensor& x) {
    return with_indices(x, function::pooling_of(this->options));
  }
  Values call(const Values& inputs) override {
    if (!this->options.return_indices) return call_forward(*this, inputs);
    const auto [values, indices] =
        forward_with_indices(from_values<Tensor>(inputs, ValuesPath("input")));
    return Values::list({to_values(values), to_values(indices)});
  }
  const std::type_info& class_type() const override { return typeid(MaxPoolImpl); }
};

/// `MaxPool2d(2)` or `MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})`.
template <class Impl>
class MaxPoolLayer : public Handle<Impl> {
  using Options = std::remove_cvref_t<decltype(std::declval<Impl>().options)>;

 public:
  MaxPoolLayer() : Handle<Impl>(Options{}) {}
  explicit MaxPoolLayer(const Options& options) : Handle<Impl>(options) {}
  explicit MaxPoolLayer(decltype(Options::kernel) kernel)
      : Handle<Impl>(Options{.kernel = kernel}) {}
  template <std::same_as<std::nullptr_t> Nothing>
  MaxPoolLayer(Nothing) : Handle<Impl>(nullptr) {}
};
/// The largest of each window of (N, C, L).
using MaxPool1d =
    MaxPoolLayer<MaxPoolImpl<"MaxPool1d", int64_t, max_pool1d, max_pool1d_with_indices>>;
/// The same of (N, C, H, W).
using MaxPool2d =
    MaxPoolLayer<MaxPoolImpl<"MaxPool2d", Size2, max_pool2d, max_pool2d_with_indices>>;
/// The same of (N, C, D, H, W).
using MaxPool3d =
    MaxPoolLayer<MaxPoolImpl<"MaxPool3d", Size3, max_pool3d, max_pool3d_with_indices>>;
/// The mean of each window of (N, C, L).
using AvgPool1d = OpLayer<"AvgPool1d", avg_pool1d, AvgPoolOptions<int64_t>>;
/// The same of (N, C, H, W).
using AvgPool2d = OpLayer<"AvgPool2d", avg_pool2d, AvgPool2dParams>;
/// The same of (N, C, D, H, W).
using AvgPool3d = OpLayer<"AvgPool3d", avg_pool3d, AvgPoolOptions<Size3>>;

/// To an output of this size: `AdaptiveAvgPool2d(7)` or `AdaptiveAvgPool2d({7, 5})`.
using AdaptiveAvgPool1d = OpLayer<"AdaptiveAvgPool1d", adaptive_avg_pool1d, int64_t>;
/// The same of (N, C, H, W).
using AdaptiveAvgPool2d = OpLayer<"AdaptiveAvgPool2d", adaptive_avg_pool2d, Size2>;
/// The same of (N, C, D, H, W).
using AdaptiveAvgPool3d = OpLayer<"AdaptiveAvgPool3d", adaptive_avg_pool3d, Size3>;
/// Maxima, to an output of this size.
using AdaptiveMaxPool1d = OpLayer<"AdaptiveMaxPool1d", adaptive_max_pool1d, int64_t>;
/// The same of (N, C, H, W).
using AdaptiveMaxPool2d = OpLayer<"AdaptiveMaxPool2d", adaptive_max_pool2d, Size2>;
/// The same of (N, C, D, H, W).
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
inline Tensor lp_pool3d(const Tensor& x, const LPPoolOptions<Size3>& o) {
  return mica::lp_pool3d(x, o.p, {o.kernel, o.stride, o.ceil_mode});
}

}  // namespace function

/// The p-norm of each window of (N, C, L).
using LPPool1d = OpLayer<"LPPool1d", function::lp_pool1d, LPPoolOptions<int64_t>>;
/// The same of (N, C, H, W).
using LPPool2d = OpLayer<"LPPool2d", function::lp_pool2d, LPPoolOptions<Size2>>;
/// The same of (N, C, D, H, W).
using LPPool3d = OpLayer<"LPPool3d", function::lp_pool3d, LPPoolOptions<Size3>>;

}  // namespace mica::nn
