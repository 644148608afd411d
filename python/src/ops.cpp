// Operators as functions: mica.*, and mica.nn.functional with PyTorch's argument names.
#include <string_view>

#include "mica/op/dispatch.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using MaybeTensor = std::optional<Tensor>;
using MaybeDims = std::optional<Dims>;

Tensor argmax_over(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return dim ? argmax(x, *dim, keepdim) : argmax(flatten(x), 0);
}

/// As a function and as a method.
template <class F, class... Extra>
void def_both(nb::module_& m, nb::class_<Tensor>& tensor, const char* name, F f,
              const Extra&... extra) {
  m.def(name, f, "input"_a, extra..., ReleaseGil());
  tensor.def(name, f, extra..., ReleaseGil());
}

void bind_arithmetic(nb::module_& m) {
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  for (const auto& [name, op] :
       {std::pair<const char*, Binary>{"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}}) {
    m.def(name, op, "input"_a, "other"_a, ReleaseGil());
  }
  m.def("matmul", matmul, "input"_a, "other"_a, ReleaseGil());
  m.def("neg", neg, "input"_a, ReleaseGil());
  def_both(m, tensor, "relu", relu);
  const auto reduction = [&](const char* name, Tensor (*op)(const Tensor&, const Dims&, bool)) {
    def_both(
        m, tensor, name,
        [op](const Tensor& x, const MaybeDims& dim, bool keepdim) {
          return op(x, dim.value_or(Dims()), keepdim);
        },
        "dim"_a = nb::none(), "keepdim"_a = false);
  };
  reduction("sum", sum);
  reduction("mean", mean);
  def_both(m, tensor, "argmax", argmax_over, "dim"_a = nb::none(), "keepdim"_a = false);
}

void bind_creation(nb::module_& m) {
  using Create = Tensor (*)(const Shape&, TensorOptions);
  for (const auto& [name, create] :
       {std::pair<const char*, Create>{"zeros", zeros}, {"ones", ones}, {"empty", empty}}) {
    m.def(
        name,
        [make = create](const nb::args& shape, nb::handle dtype, nb::handle device) {
          const TensorOptions options = parse_options(dtype, device);
          return without_gil([&, s = parse_dims(shape)] { return make(s, options); });
        },
        "shape"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none());
  }
  m.def(
      "full",
      [](const Dims& shape, double value, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device);
        return without_gil([&] { return full(shape, value, options); });
      },
      "shape"_a, "fill_value"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none());
  m.def(
      "arange",
      [](int64_t end, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device, {DType::i64, Device::cpu()});
        return without_gil([&] { return arange(end, options); });
      },
      "end"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(), "0, 1, … end - 1.");
  m.def("zeros_like", zeros_like, "input"_a, ReleaseGil());
  m.def("ones_like", ones_like, "input"_a, ReleaseGil());
}

void bind_random(nb::module_& m) {
  using Draw = Tensor (*)(const Shape&, double, double, TensorOptions);
  const auto def_draw = [&](const char* name, Draw draw, const char* a, const char* b) {
    m.def(
        name,
        [draw](const Dims& shape, double first, double second, nb::handle dtype,
               nb::handle device) {
          const TensorOptions options = parse_options(dtype, device);
          return without_gil([&] { return draw(shape, first, second, options); });
        },
        "shape"_a, nb::arg(a) = 0.0, nb::arg(b) = 1.0, nb::kw_only(), "dtype"_a = nb::none(),
        "device"_a = nb::none());
  };
  def_draw("uniform", uniform, "low", "high");
  def_draw("normal", normal, "mean", "std");
  for (const auto& [name, draw] :
       {std::pair<const char*, Draw>{"rand", uniform}, {"randn", normal}}) {
    m.def(
        name,
        [make = draw](const nb::args& shape, nb::handle dtype, nb::handle device) {
          const TensorOptions options = parse_options(dtype, device);
          return without_gil([&, s = parse_dims(shape)] { return make(s, 0, 1, options); });
        },
        "shape"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none());
  }
  m.def("randperm", randperm, "n"_a, ReleaseGil());
  m.def("manual_seed", manual_seed, "seed"_a, ReleaseGil(), "Restarts every device's generator.");
  m.def(
      "rng_state", [](nb::handle device) { return rng_state(parse_device(device)); },
      "device"_a = "cpu");
}

void bind_functional(nb::module_& f) {
  f.def("relu", relu, "input"_a, ReleaseGil());
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

/// Elementwise ops without parameters need no binding of their own: an op that is new in C++ is
/// here at once.
void bind_plain(const nb::module_& m, nb::module_& f) {
  // What describes NoParams inside the library; this extension, whose symbols are hidden, has a
  // copy elsewhere.
  const ParamsInfo* const no_params = find_op("relu").params_info;
  for (const OpDef* op : all_ops()) {
    const bool internal = op->elementwise == 0 || std::string_view(op->name).ends_with("_grad");
    if (op->params_info != no_params || internal) continue;
    if (nb::hasattr(m, op->name) || nb::hasattr(f, op->name)) continue;
    f.def(op->name, [op](const nb::args& inputs) {
      const Tensors in = parse_tensors(inputs, op->name);
      const NoParams none;
      const ParamsRef params{&none, op->params_info};
      return without_gil([&] { return dispatch(*op, params, std::span<const Tensor>(in))[0]; });
    });
  }
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_arithmetic(m);
  bind_creation(m);
  bind_random(m);
  nb::module_ functional = add_submodule(m, "functional");
  bind_functional(functional);
  bind_plain(m, functional);
}

}  // namespace mica::python
