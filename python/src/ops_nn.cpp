// Layers as functions, with PyTorch's argument names.
#include "python/src/def.h"

namespace mica::python {

void bind_layer_functions(Scope& scope) {
  nb::module_& f = scope.functional;
  scope.both("matmul", matmul, "other"_a);
  f.def(
      "linear",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias) {
        return linear(input, weight, or_undefined(bias));
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), ReleaseGil());
  f.def(
      "conv2d",
      [](const Tensor& input, const Tensor& weight, const MaybeTensor& bias, Size2 stride,
         Size2 padding, Size2 dilation, int64_t groups) {
        return conv2d(
            input, weight, or_undefined(bias),
            {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1, ReleaseGil());
  f.def(
      "max_pool2d",
      [](const Tensor& input, Size2 kernel_size, std::optional<Size2> stride, Size2 padding) {
        return max_pool2d(
            input,
            {.kernel = kernel_size, .stride = stride.value_or(Size2(0)), .padding = padding});
      },
      "input"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, ReleaseGil());
  f.def(
      "cross_entropy",
      [](const Tensor& input, const Tensor& target, int64_t ignore_index, double label_smoothing) {
        return cross_entropy(input, target,
                             {.ignore_index = ignore_index, .label_smoothing = label_smoothing});
      },
      "input"_a, "target"_a, nb::kw_only(), "ignore_index"_a = -100, "label_smoothing"_a = 0.0,
      ReleaseGil());
  f.def("dropout", dropout, "input"_a, "p"_a = 0.5, "training"_a = true, ReleaseGil());
  f.def(
      "batch_norm",
      [](const Tensor& input, const MaybeTensor& running_mean, const MaybeTensor& running_var,
         const MaybeTensor& weight, const MaybeTensor& bias, bool training, double momentum,
         double eps) {
        return batch_norm(input, or_undefined(weight), or_undefined(bias),
                          or_undefined(running_mean), or_undefined(running_var),
                          {.eps = eps, .momentum = momentum, .training = training});
      },
      "input"_a, "running_mean"_a = nb::none(), "running_var"_a = nb::none(),
      "weight"_a = nb::none(), "bias"_a = nb::none(), "training"_a = false, "momentum"_a = 0.1,
      "eps"_a = 1e-5, ReleaseGil());
}

}  // namespace mica::python
