// The layers, with PyTorch's constructor arguments.
#include "mica/models/models.h"
#include "mica/nn/nn.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

template <class Impl>
using Layer = nb::class_<Impl, nn::ModuleImpl, Overridable<Impl>>;

/// Binds a layer whose `forward` is the C++ one: a class derived in Python reaches it by
/// super().forward(x).
template <class Impl>
Layer<Impl> add_layer(nb::module_& nn, const char* name, const char* doc) {
  Layer<Impl> layer(nn, name, nb::type_slots(module_slots), doc);
  layer.def(
      "forward", [](Impl& self, const Tensor& x) { return self.Impl::forward(x); }, "input"_a,
      ReleaseGil());
  return layer;
}

/// A parameter that may be missing is None then.
template <class Impl, std::derived_from<nn::ModuleImpl> Owner>
void def_parameter(Layer<Impl>& layer, const char* name, Tensor Owner::* member) {
  layer.def_prop_ro(name, [member](const Impl& self) -> nb::object {
    const Tensor& t = self.*member;
    return t.defined() ? nb::cast(Parameter(t)) : nb::none();
  });
}

void bind_sequential(nb::module_& nn) {
  using nn::SequentialImpl;
  auto sequential = add_layer<SequentialImpl>(nn, "Sequential",
                                              "One module after the other, named \"0\", \"1\", ….");
  sequential.def("__init__", [](SequentialImpl* self, const nb::args& modules) {
    new (self) Overridable<SequentialImpl>();
    for (const nb::handle module : modules) self->push_back(module_from(module));
  });
  sequential.def(
      "append",
      [](nb::handle self, nb::handle module) {
        nb::cast<SequentialImpl&>(self).push_back(module_from(module));
        return nb::borrow(self);
      },
      "module"_a);
  sequential.def("__len__", [](const SequentialImpl& self) { return self.children().size(); });
  sequential.def("__getitem__", [](const SequentialImpl& self, int64_t i) {
    const auto n = static_cast<int64_t>(self.children().size());
    check<IndexError>(i >= -n && i < n, "Sequential: index {} is out of range for {} modules", i,
                      n);
    return module_to_python(self.children()[static_cast<size_t>(i < 0 ? i + n : i)].second);
  });
}

}  // namespace

void bind_layers(nb::module_& nn) {
  using namespace mica::nn;

  auto linear = add_layer<LinearImpl>(nn, "Linear", "(…, in_features) to (…, out_features).");
  linear.def(
      "__init__",
      [](LinearImpl* self, int64_t in, int64_t out, bool bias) {
        new (self) Overridable<LinearImpl>(LinearOptions{.in = in, .out = out, .bias = bias});
      },
      "in_features"_a, "out_features"_a, "bias"_a = true);
  def_parameter(linear, "weight", &LinearImpl::weight);
  def_parameter(linear, "bias", &LinearImpl::bias);

  auto conv2d =
      add_layer<Conv2d::Impl>(nn, "Conv2d", "(N, in_channels, H, W) to (N, out_channels, H', W').");
  conv2d.def(
      "__init__",
      [](Conv2d::Impl* self, int64_t in, int64_t out, Size2 kernel, Size2 stride, Size2 padding,
         Size2 dilation, int64_t groups, bool bias) {
        new (self) Overridable<Conv2d::Impl>(Conv2dOptions{.in = in,
                                                           .out = out,
                                                           .kernel = kernel,
                                                           .stride = stride,
                                                           .padding = padding,
                                                           .dilation = dilation,
                                                           .groups = groups,
                                                           .bias = bias});
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1, "bias"_a = true);
  def_parameter(conv2d, "weight", &Conv2d::Impl::weight);
  def_parameter(conv2d, "bias", &Conv2d::Impl::bias);

  auto batch_norm = add_layer<BatchNorm2d::Impl>(nn, "BatchNorm2d",
                                                 "Normalises (N, num_features, H, W) by channel.");
  batch_norm.def(
      "__init__",
      [](BatchNorm2d::Impl* self, int64_t features, double eps, double momentum, bool affine) {
        new (self) Overridable<BatchNorm2d::Impl>(BatchNormOptions{
            .features = features, .eps = eps, .momentum = momentum, .affine = affine});
      },
      "num_features"_a, "eps"_a = 1e-5, "momentum"_a = 0.1, "affine"_a = true);
  def_parameter(batch_norm, "weight", &BatchNorm2d::Impl::weight);
  def_parameter(batch_norm, "bias", &BatchNorm2d::Impl::bias);

  add_layer<MaxPool2d::Impl>(nn, "MaxPool2d", "Largest value of each window.")
      .def(
          "__init__",
          [](MaxPool2d::Impl* self, Size2 kernel, std::optional<Size2> stride, Size2 padding) {
            new (self) Overridable<MaxPool2d::Impl>(MaxPool2dParams{
                .kernel = kernel, .stride = stride.value_or(Size2(0)), .padding = padding});
          },
          "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0);
  add_layer<DropoutImpl>(nn, "Dropout", "Zeroes elements with probability p in training.")
      .def(nb::init<double>(), "p"_a = 0.5);
  add_layer<ReLU::Impl>(nn, "ReLU", "max(x, 0).").def(nb::init<>());
  add_layer<Flatten::Impl>(nn, "Flatten", "(N, …) to (N, the product of the others).")
      .def(nb::init<>());
  bind_sequential(nn);
}

void bind_models(nb::module_& m) {
  nb::module_ models = add_submodule(m, "models");
  models.def(
      "lenet", [] { return module_to_python(models::lenet()); },
      "LeNet for images (N, 1, 28, 28), ten logits.");
}

}  // namespace mica::python
