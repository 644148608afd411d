// Layers made of layers.
#include "mica/nn/nn.h"
#include "python/src/layer.h"
#include "python/src/padding.h"
#include "python/src/words.h"

namespace mica::python {
namespace {

using namespace mica::nn;

/// A word, a module, what makes one when it is called (a class), or None.
Module parse_activation(const char* what, nb::handle given) {
  if (given.is_none()) return Identity();
  if (nb::isinstance<nb::str>(given))
    return parse_word<Module (*)()>(what, nb::cast<std::string>(given),
                                    {{"relu", [] { return Module(ReLU()); }},
                                     {"relu6", [] { return Module(ReLU6()); }},
                                     {"silu", [] { return Module(SiLU()); }},
                                     {"gelu", [] { return Module(GELU()); }},
                                     {"hardswish", [] { return Module(Hardswish()); }},
                                     {"leaky_relu", [] { return Module(LeakyReLU()); }},
                                     {"sigmoid", [] { return Module(Sigmoid()); }},
                                     {"hardsigmoid", [] { return Module(Hardsigmoid()); }},
                                     {"tanh", [] { return Module(Tanh()); }},
                                     {"none", [] { return Module(Identity()); }}})();
  if (nb::isinstance<ModuleImpl>(given)) return module_from(given);
  if (!PyCallable_Check(given.ptr()))
    raise_type_error("{} must be a word, a module, a class of modules or None, got {}", what,
                     class_name(given));
  return module_from(given());
}

void bind_conv_bn_act(nb::module_& nn) {
  constexpr const char* kDoc =
      "activation(batch_norm(conv2d(input)) + residual), the residual (N, out_channels, H', W') "
      "where there is one: three layers as one, which a compiled function computes together. The "
      "parts are conv, bn and act.";
  constexpr const char* kWhat = "ConvBnAct2d: activation";
  Layer<ConvBnAct2dImpl> layer(nn, "ConvBnAct2d", nb::type_slots(module_slots), kDoc);
  allow_copies<ConvBnAct2dImpl>();
  layer.def(
      "__init__",
      [](ConvBnAct2dImpl* self, int64_t in, int64_t out, Size2 kernel, Size2 stride,
         nb::handle padding, Size2 dilation, int64_t groups, bool bias, nb::handle activation,
         double eps, double momentum) {
        construct(self, ConvBnAct2dOptions{.in = in,
                                           .out = out,
                                           .kernel = kernel,
                                           .stride = stride,
                                           .padding = parse_padding<Size2>("ConvBnAct2d", padding),
                                           .dilation = dilation,
                                           .groups = groups,
                                           .bias = bias,
                                           .activation = parse_activation(kWhat, activation),
                                           .eps = eps,
                                           .momentum = momentum});
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1, "bias"_a = false, "activation"_a.none() = "relu",
      "eps"_a = 1e-5, "momentum"_a = 0.1);
  layer.def(
      "__init__",
      [](ConvBnAct2dImpl* self, const Conv2d::Impl& conv, const BatchNorm2d::Impl& bn,
         nb::handle activation) {
        construct(self, ConvBnAct2dParts{module_from(nb::find(conv)), module_from(nb::find(bn)),
                                         parse_activation(kWhat, activation)});
      },
      "conv"_a, "bn"_a, "activation"_a.none() = "relu");
  layer.def(
      "forward",
      [](ConvBnAct2dImpl& self, const Tensor& x, const std::optional<Tensor>& residual) {
        return self.ConvBnAct2dImpl::forward(x, residual.value_or(Tensor()));
      },
      "input"_a, "residual"_a = nb::none(), ReleaseGil(), kDoc);
}

}  // namespace

void bind_joined_layers(nb::module_& nn) {
  bind_conv_bn_act(nn);
  add_layer<SqueezeExcitationImpl>(nn, "SqueezeExcitation",
                                   "Scales the channels of images (N, input_channels, H, W) by "
                                   "what two convolutions make of the "
                                   "channels' means.")
      .def(
          "__init__",
          [](SqueezeExcitationImpl* self, int64_t channels, int64_t squeeze, nb::handle activation,
             nb::handle scale) {
            construct(self,
                      SqueezeExcitationOptions{.channels = channels,
                                               .squeeze = squeeze,
                                               .activation = parse_activation(
                                                   "SqueezeExcitation: activation", activation),
                                               .scale_activation = parse_activation(
                                                   "SqueezeExcitation: scale_activation", scale)});
          },
          "input_channels"_a, "squeeze_channels"_a, "activation"_a.none() = "relu",
          "scale_activation"_a.none() = "sigmoid");
}

}  // namespace mica::python
