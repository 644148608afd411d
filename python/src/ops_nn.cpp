// Products of matrices, convolutions and pooling, with PyTorch's argument names.
#include <nanobind/stl/pair.h>

#include "python/src/def.h"
#include "python/src/padding.h"

namespace mica::python {
namespace {

template <class Size>
void def_conv(Functions& f, const char* name,
              Tensor (*op)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions<Size>&)) {
  f.def(
      name,
      [name, op](const Tensor& input, const Tensor& weight, const MaybeTensor& bias, Size stride,
                 nb::handle padding, Size dilation, int64_t groups) {
        const ConvOptions<Size> options = {.stride = stride,
                                           .padding = parse_padding<Size>(name, padding),
                                           .dilation = dilation,
                                           .groups = groups};
        return without_gil([&] { return op(input, weight, or_undefined(bias), options); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1);
}

template <class Size>
void def_conv_transpose(Functions& f, const char* name,
                        Tensor (*op)(const Tensor&, const Tensor&, const Tensor&,
                                     const ConvTransposeOptions<Size>&)) {
  f.def(
      name,
      [op](const Tensor& input, const Tensor& weight, const MaybeTensor& bias, Size stride,
           Size padding, Size output_padding, int64_t groups, Size dilation) {
        return op(input, weight, or_undefined(bias),
                  {.stride = stride,
                   .padding = padding,
                   .output_padding = output_padding,
                   .dilation = dilation,
                   .groups = groups});
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0,
      "output_padding"_a = 0, "groups"_a = 1, "dilation"_a = 1, ReleaseGil());
}

template <class Size, class Options>
void def_max_pool(Functions& f, const char* name, Tensor (*op)(const Tensor&, const Options&)) {
  f.def(
      name,
      [op](const Tensor& input, Size kernel, std::optional<Size> stride, Size padding,
           Size dilation, bool ceil_mode) {
        return op(input, {.kernel = kernel,
                          .stride = stride.value_or(Size(0)),
                          .padding = padding,
                          .dilation = dilation,
                          .ceil_mode = ceil_mode});
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "dilation"_a = 1,
      "ceil_mode"_a = false, ReleaseGil());
}

template <class Size, class Options>
void def_avg_pool(Functions& f, const char* name, Tensor (*op)(const Tensor&, const Options&)) {
  f.def(
      name,
      [op](const Tensor& input, Size kernel, std::optional<Size> stride, Size padding,
           bool ceil_mode, bool count_include_pad, MaybeInt divisor_override) {
        return op(input, {.kernel = kernel,
                          .stride = stride.value_or(Size(0)),
                          .padding = padding,
                          .ceil_mode = ceil_mode,
                          .count_include_pad = count_include_pad,
                          .divisor_override = divisor_override.value_or(0)});
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "ceil_mode"_a = false,
      "count_include_pad"_a = true, "divisor_override"_a = nb::none(), ReleaseGil());
}

template <class Size>
void def_adaptive_pool(Functions& f, const char* name, Tensor (*op)(const Tensor&, Size)) {
  f.def(name, op, "input"_a, "output_size"_a, ReleaseGil());
}

template <class Size>
void def_lp_pool(Functions& f, const char* name,
                 Tensor (*op)(const Tensor&, double, const LpPoolOptions<Size>&)) {
  f.def(
      name,
      [op](const Tensor& input, double p, Size kernel, std::optional<Size> stride, bool ceil_mode) {
        return op(input, p,
                  {.kernel = kernel, .stride = stride.value_or(Size(0)), .ceil_mode = ceil_mode});
      },
      "input"_a, "norm_type"_a, "kernel_size"_a, "stride"_a = nb::none(), "ceil_mode"_a = false,
      ReleaseGil());
}

}  // namespace

void bind_linear_algebra(Scope& scope) {
  scope.both("matmul", matmul, "other"_a);
  scope.both("outer", outer, "vec2"_a);
  scope.both("inner", inner, "other"_a);
  scope.both("dot", dot, "tensor"_a);
  scope.both("mm", mm, "mat2"_a);
  scope.both("bmm", bmm, "mat2"_a);
  scope.both("mv", mv, "vec"_a);
  using AddProduct =
      Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const AddProductOptions&);
  const auto def_add_product = [&](const char* name, AddProduct op, const char* a, const char* b) {
    scope.both(
        name,
        [op](const Tensor& x, const Tensor& left, const Tensor& right, double beta, double alpha) {
          return op(x, left, right, {.beta = beta, .alpha = alpha});
        },
        nb::arg(a), nb::arg(b), nb::kw_only(), "beta"_a = 1.0, "alpha"_a = 1.0);
  };
  def_add_product("addmm", addmm, "mat1", "mat2");
  def_add_product("baddbmm", baddbmm, "batch1", "batch2");
  scope.m.def(
      "tensordot",
      [](const Tensor& a, const Tensor& b, int64_t dims) { return tensordot(a, b, dims); }, "a"_a,
      "b"_a, "dims"_a = 2, ReleaseGil());
  scope.m.def(
      "tensordot",
      [](const Tensor& a, const Tensor& b, const std::pair<Dims, Dims>& dims) {
        return tensordot(a, b, dims.first, dims.second);
      },
      "a"_a, "b"_a, "dims"_a, ReleaseGil());
  scope.both("diag", diag, "diagonal"_a = 0);
  scope.both("trace", trace);
  scope.both("tril", tril, "diagonal"_a = 0);
  scope.both("triu", triu, "diagonal"_a = 0);
  scope.m.def(
      "einsum",
      [](const std::string& equation, const nb::args& operands) {
        // As einsum("ij,jk", a, b) or einsum("ij,jk", [a, b]).
        const bool listed = operands.size() == 1 && !nb::isinstance<Tensor>(operands[0]);
        const Tensors tensors =
            parse_tensors(listed ? nb::object(operands[0]) : nb::object(operands), "einsum");
        return without_gil([&] { return einsum(equation, tensors); });
      },
      "equation"_a, "operands"_a);
  scope.functional.def(
      "linear",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias,
         const std::string& activation) {
        const auto word = parse_word<Activation>(
            "linear: activation", activation,
            {{"none", Activation::none}, {"relu", Activation::relu}, {"gelu", Activation::gelu}});
        return linear(input, weight, or_undefined(bias), {.activation = word});
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), nb::kw_only(), "activation"_a = "none",
      ReleaseGil());
}

void bind_convolutions(Scope& scope) {
  Functions& f = scope.functional;
  def_conv<int64_t>(f, "conv1d", conv1d);
  def_conv<Size2>(f, "conv2d", conv2d);
  def_conv<Size3>(f, "conv3d", conv3d);
  def_conv_transpose<int64_t>(f, "conv_transpose1d", conv_transpose1d);
  def_conv_transpose<Size2>(f, "conv_transpose2d", conv_transpose2d);
  def_conv_transpose<Size3>(f, "conv_transpose3d", conv_transpose3d);
}

void bind_pooling(Scope& scope) {
  Functions& f = scope.functional;
  def_max_pool<int64_t>(f, "max_pool1d", max_pool1d);
  def_max_pool<Size2>(f, "max_pool2d", max_pool2d);
  def_max_pool<Size3>(f, "max_pool3d", max_pool3d);
  def_avg_pool<int64_t>(f, "avg_pool1d", avg_pool1d);
  def_avg_pool<Size2>(f, "avg_pool2d", avg_pool2d);
  def_avg_pool<Size3>(f, "avg_pool3d", avg_pool3d);
  def_adaptive_pool<int64_t>(f, "adaptive_max_pool1d", adaptive_max_pool1d);
  def_adaptive_pool<Size2>(f, "adaptive_max_pool2d", adaptive_max_pool2d);
  def_adaptive_pool<Size3>(f, "adaptive_max_pool3d", adaptive_max_pool3d);
  def_adaptive_pool<int64_t>(f, "adaptive_avg_pool1d", adaptive_avg_pool1d);
  def_adaptive_pool<Size2>(f, "adaptive_avg_pool2d", adaptive_avg_pool2d);
  def_adaptive_pool<Size3>(f, "adaptive_avg_pool3d", adaptive_avg_pool3d);
  def_lp_pool<int64_t>(f, "lp_pool1d", lp_pool1d);
  def_lp_pool<Size2>(f, "lp_pool2d", lp_pool2d);
}

}  // namespace mica::python
