// Pooling as layers, with PyTorch's constructor arguments.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>

#include "mica/nn/nn.h"
#include "python/src/layer.h"

namespace mica::python {
namespace {

using namespace mica::nn;

template <class Impl>
void def_sizes(Layer<Impl>& pool) {
  def_settable(pool, "kernel_size", [](auto& o) -> auto& { return o.kernel; }, "Of a window.");
  pool.def_prop_rw(
      "stride",
      [](const Impl& self) {
        const auto& o = self.options;
        return o.stride == decltype(o.stride)(0) ? o.kernel : o.stride;
      },
      [](Impl& self, SizeArgument<decltype(Impl::options.stride)> stride) {
        self.options.stride = stride;
        self.note_change();
      },
      "From one window to the next.");
  def_settable(pool, "ceil_mode", [](auto& o) -> auto& { return o.ceil_mode; }, "Rounds up.");
}
template <class Impl>
void def_window(Layer<Impl>& pool) {
  def_sizes(pool);
  def_settable(pool, "padding", [](auto& o) -> auto& { return o.padding; }, "On both sides.");
}

using Pooled = std::variant<Tensor, std::pair<Tensor, Tensor>>;

template <class L, class Size>
void def_max_pool(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  constexpr const char* kDoc =
      "Largest value of each window; with return_indices also where it is in the flattened space "
      "of its channel.";
  Layer<Impl> pool(nn, name, nb::type_slots(module_slots), kDoc);
  allow_copies<Impl>();
  pool.def(
      "forward",
      [](Impl& self, const Tensor& x) -> Pooled {
        if (!self.options.return_indices) return self.Impl::forward(x);
        const PooledWithIndices both = self.forward_with_indices(x);
        return std::pair(both.values, both.indices);
      },
      "input"_a, ReleaseGil(), kDoc);
  def_window(pool);
  def_option(pool, "return_indices", [](const auto& o) { return o.return_indices; }, "Gives both.");
  def_option(pool, "dilation", [](const auto& o) { return o.dilation; }, "Between elements.");
  pool.def(
      "__init__",
      [](Impl* self, SizeArgument<Size> kernel, std::optional<SizeArgument<Size>> stride,
         SizeArgument<Size> padding, SizeArgument<Size> dilation, bool return_indices,
         bool ceil_mode) {
        construct(self, MaxPoolLayerOptions<Size>{.kernel = kernel,
                                                  .stride = stride.value_or(0),
                                                  .padding = padding,
                                                  .dilation = dilation,
                                                  .ceil_mode = ceil_mode,
                                                  .return_indices = return_indices});
      },
      "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
      "return_indices"_a = false, "ceil_mode"_a = false);
}

template <class L, class Size, class Options>
void def_avg_pool(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pool = add_layer<Impl>(nn, name, "Mean of each window.");
  def_window(pool);
  def_option(
      pool, "count_include_pad", [](const auto& o) { return o.count_include_pad; },
      "Padding counts.");
  def_option(
      pool, "divisor_override",
      [](const auto& o) {
        return o.divisor_override ? std::optional(o.divisor_override) : std::nullopt;
      },
      "Divides in the place of a window's size, or None.");
  pool.def(
      "__init__",
      [](Impl* self, SizeArgument<Size> kernel, std::optional<SizeArgument<Size>> stride,
         SizeArgument<Size> padding, bool ceil_mode, bool count_include_pad,
         std::optional<int64_t> divisor) {
        construct(self, Options{.kernel = kernel,
                                .stride = stride.value_or(0),
                                .padding = padding,
                                .ceil_mode = ceil_mode,
                                .count_include_pad = count_include_pad,
                                .divisor_override = divisor.value_or(0)});
      },
      "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, "divisor_override"_a = nb::none());
}

template <class L, class Size>
auto def_adaptive(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pool = add_layer<Impl>(nn, name, "Divides the input into output_size nearly equal windows.");
  pool.def_prop_ro("output_size", [](const Impl& self) { return self.options; }, "Of the result.");
  return pool;
}
template <class L, class Size>
void def_adaptive_avg(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  def_adaptive<L, Size>(nn, name).def(
      "__init__", [](Impl* self, SizeArgument<Size> size) { construct(self, size); },
      "output_size"_a);
}
template <class L, class Size>
void def_adaptive_max(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pool = def_adaptive<L, Size>(nn, name);
  pool.attr("return_indices") = false;
  pool.def(
      "__init__",
      [name](Impl* self, SizeArgument<Size> size, bool return_indices) {
        check<Unsupported>(!return_indices,
                           "nn.{}: return_indices=True is not there; "
                           "nn.functional.adaptive_max_pool{}d_with_indices gives both",
                           name, std::string(name).substr(15, 1));
        construct(self, size);
      },
      "output_size"_a, "return_indices"_a = false);
}

template <class L, class Size>
void def_lp_pool(nb::module_& nn, const char* name) {
  using Impl = typename L::Impl;
  auto pool = add_layer<Impl>(nn, name, "The norm of each window.");
  def_sizes(pool);
  def_option(pool, "norm_type", [](const auto& o) { return o.p; }, "Which norm.");
  pool.def(
      "__init__",
      [](Impl* self, double p, SizeArgument<Size> kernel, std::optional<SizeArgument<Size>> stride,
         bool ceil_mode) {
        construct(
            self,
            LPPoolOptions<Size>{
                .p = p, .kernel = kernel, .stride = stride.value_or(0), .ceil_mode = ceil_mode});
      },
      "norm_type"_a, "kernel_size"_a, "stride"_a = nb::none(), "ceil_mode"_a = false);
}

}  // namespace

void bind_pooling_layers(nb::module_& nn) {
  def_max_pool<MaxPool1d, int64_t>(nn, "MaxPool1d");
  def_max_pool<MaxPool2d, Size2>(nn, "MaxPool2d");
  def_max_pool<MaxPool3d, Size3>(nn, "MaxPool3d");
  def_avg_pool<AvgPool1d, int64_t, AvgPoolOptions<int64_t>>(nn, "AvgPool1d");
  def_avg_pool<AvgPool2d, Size2, AvgPool2dParams>(nn, "AvgPool2d");
  def_avg_pool<AvgPool3d, Size3, AvgPoolOptions<Size3>>(nn, "AvgPool3d");
  def_adaptive_avg<AdaptiveAvgPool1d, int64_t>(nn, "AdaptiveAvgPool1d");
  def_adaptive_avg<AdaptiveAvgPool2d, Size2>(nn, "AdaptiveAvgPool2d");
  def_adaptive_avg<AdaptiveAvgPool3d, Size3>(nn, "AdaptiveAvgPool3d");
  def_adaptive_max<AdaptiveMaxPool1d, int64_t>(nn, "AdaptiveMaxPool1d");
  def_adaptive_max<AdaptiveMaxPool2d, Size2>(nn, "AdaptiveMaxPool2d");
  def_adaptive_max<AdaptiveMaxPool3d, Size3>(nn, "AdaptiveMaxPool3d");
  def_lp_pool<LPPool1d, int64_t>(nn, "LPPool1d");
  def_lp_pool<LPPool2d, Size2>(nn, "LPPool2d");
  def_lp_pool<LPPool3d, Size3>(nn, "LPPool3d");
}

}  // namespace mica::python
