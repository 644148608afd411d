// Normalisation and dropout, with PyTorch's argument names.
#include "python/src/def.h"
#include "python/src/inplace.h"

namespace mica::python {

void bind_normalisation(Scope& scope) {
  Functions& f = scope.functional;
  using AlongAxis = Tensor (*)(const Tensor&, int64_t);
  for (const auto& [name, op] :
       {std::pair<const char*, AlongAxis>{"softmax", softmax}, {"log_softmax", log_softmax}}) {
    scope.both(name, op, "dim"_a);
    f.def(name, op, "input"_a, "dim"_a, ReleaseGil());
  }
  f.def(
      "dropout",
      [](const Tensor& input, double p, bool training, bool) {
        return dropout(input, p, training);
      },
      "input"_a, "p"_a = 0.5, "training"_a = true, inplace(), ReleaseGil());
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
  f.def(
      "instance_norm",
      [](const Tensor& input, const MaybeTensor& running_mean, const MaybeTensor& running_var,
         const MaybeTensor& weight, const MaybeTensor& bias, bool use_input_stats, double momentum,
         double eps) {
        return instance_norm(
            input, or_undefined(running_mean), or_undefined(running_var), or_undefined(weight),
            or_undefined(bias),
            {.eps = eps, .momentum = momentum, .use_input_stats = use_input_stats});
      },
      "input"_a, "running_mean"_a = nb::none(), "running_var"_a = nb::none(),
      "weight"_a = nb::none(), "bias"_a = nb::none(), "use_input_stats"_a = true,
      "momentum"_a = 0.1, "eps"_a = 1e-5, ReleaseGil());
  f.def(
      "local_response_norm",
      [](const Tensor& input, int64_t size, double alpha, double beta, double k) {
        return local_response_norm(input, {.size = size, .alpha = alpha, .beta = beta, .k = k});
      },
      "input"_a, "size"_a, "alpha"_a = 1e-4, "beta"_a = 0.75, "k"_a = 1.0, ReleaseGil());
  f.def(
      "layer_norm",
      [](const Tensor& input, const Dims& normalized_shape, const MaybeTensor& weight,
         const MaybeTensor& bias, double eps) {
        return layer_norm(input, normalized_shape, or_undefined(weight), or_undefined(bias), eps);
      },
      "input"_a, "normalized_shape"_a, "weight"_a = nb::none(), "bias"_a = nb::none(),
      "eps"_a = 1e-5, ReleaseGil());
  f.def(
      "rms_norm",
      [](const Tensor& input, const Dims& normalized_shape, const MaybeTensor& weight, double eps) {
        return rms_norm(input, normalized_shape, or_undefined(weight), eps);
      },
      "input"_a, "normalized_shape"_a, "weight"_a = nb::none(), "eps"_a = 1e-6, ReleaseGil());
  f.def(
      "group_norm",
      [](const Tensor& input, int64_t groups, const MaybeTensor& weight, const MaybeTensor& bias,
         double eps) {
        return group_norm(input, or_undefined(weight), or_undefined(bias),
                          {.groups = groups, .eps = eps});
      },
      "input"_a, "num_groups"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      ReleaseGil());
}

}  // namespace mica::python
