// Activations as layers, with PyTorch's constructor arguments.
#include "mica/nn/nn.h"
#include "python/src/inplace.h"
#include "python/src/layer.h"
#include "python/src/words.h"

namespace mica::python {
namespace {

using namespace mica::nn;

template <class L>
void def_plain(nb::module_& nn, const char* name, const char* doc) {
  using Impl = typename L::Impl;
  add_layer<Impl>(nn, name, doc).def("__init__", [](Impl* self) { construct(self, NoParams{}); });
}

template <class L>
void def_inplace(nb::module_& nn, const char* name, const char* doc) {
  using Impl = typename L::Impl;
  auto layer = add_layer<Impl>(nn, name, doc);
  layer.def("__init__", [](Impl* self, bool) { construct(self, NoParams{}); }, inplace());
  say_inplace(layer);
}

template <class L>
void def_along_axis(nb::module_& nn, const char* name, const char* doc) {
  using Impl = typename L::Impl;
  add_layer<Impl>(nn, name, doc)
      .def(
          "__init__", [](Impl* self, int64_t dim) { construct(self, dim); }, "dim"_a)
      .def_prop_ro("dim", [](const Impl& self) { return self.options; }, "The axis.");
}

template <class L>
void def_shrink(nb::module_& nn, const char* name, const char* doc) {
  using Impl = typename L::Impl;
  add_layer<Impl>(nn, name, doc)
      .def(
          "__init__", [](Impl* self, double lambd) { construct(self, ShrinkOptions{lambd}); },
          "lambd"_a = 0.5)
      .def_prop_ro("lambd", [](const Impl& self) { return self.options.lambd; }, "The border.");
}

void bind_plain(nb::module_& nn) {
  def_inplace<ReLU>(nn, "ReLU", "max(x, 0).");
  def_inplace<ReLU6>(nn, "ReLU6", "x in [0, 6].");
  def_inplace<SELU>(
      nn, "SELU", "1.0507… · ELU(x) with alpha = 1.6732…: activations keep mean 0 and variance 1.");
  def_inplace<SiLU>(nn, "SiLU", "x · sigmoid(x).");
  def_inplace<Mish>(nn, "Mish", "x · tanh(softplus(x)).");
  def_inplace<Hardswish>(nn, "Hardswish", "x · clamp(x + 3, 0, 6) / 6.");
  def_inplace<Hardsigmoid>(nn, "Hardsigmoid", "clamp(x + 3, 0, 6) / 6.");
  def_plain<Sigmoid>(nn, "Sigmoid", "1 / (1 + exp(-x)).");
  def_plain<LogSigmoid>(nn, "LogSigmoid", "log(sigmoid(x)).");
  def_plain<Tanh>(nn, "Tanh", "The hyperbolic tangent.");
  def_plain<Softsign>(nn, "Softsign", "x / (1 + |x|).");
  def_plain<Tanhshrink>(nn, "Tanhshrink", "x - tanh(x).");
  def_plain<Softmax2d>(nn, "Softmax2d",
                       "Probabilities over the channels of (N, C, H, W) or (C, H, W).");
  def_along_axis<Softmax>(nn, "Softmax", "Probabilities along an axis.");
  def_along_axis<LogSoftmax>(nn, "LogSoftmax", "Their logarithms.");
  def_along_axis<Softmin>(nn, "Softmin", "softmax(-x).");
}

}  // namespace

void bind_activation_layers(nb::module_& nn) {
  bind_plain(nn);
  auto leaky = add_layer<LeakyReLU::Impl>(nn, "LeakyReLU",
                                          "x where it is positive, else negative_slope · x.");
  leaky.def(
      "__init__",
      [](LeakyReLU::Impl* self, double slope, bool) { construct(self, LeakyReluParams{slope}); },
      "negative_slope"_a = 0.01, inplace());
  def_settable(leaky, "negative_slope", [](auto& o) -> auto& { return o.slope; }, "Below 0.");
  say_inplace(leaky);
  say_inplace(
      add_layer<ELU::Impl>(nn, "ELU", "x where it is positive, else alpha · (exp(x) - 1).")
          .def(
              "__init__",
              [](ELU::Impl* self, double alpha, bool) { construct(self, EluParams{alpha}); },
              "alpha"_a = 1.0, inplace())
          .def_prop_ro(
              "alpha", [](const ELU::Impl& self) { return self.options.alpha; },
              "The limit at minus infinity is -alpha."));
  say_inplace(
      add_layer<CELU::Impl>(nn, "CELU",
                            "x where it is positive, else alpha · (exp(x / alpha) - 1).")
          .def(
              "__init__",
              [](CELU::Impl* self, double alpha, bool) { construct(self, CELUOptions{alpha}); },
              "alpha"_a = 1.0, inplace())
          .def_prop_ro(
              "alpha", [](const CELU::Impl& self) { return self.options.alpha; },
              "The limit at minus infinity is -alpha."));
  add_layer<GLU::Impl>(nn, "GLU",
                       "a · sigmoid(b) of the halves of (…, 2 n, …) along dim: (…, n, …).")
      .def(
          "__init__", [](GLU::Impl* self, int64_t dim) { construct(self, GLUOptions{dim}); },
          "dim"_a = -1)
      .def_prop_ro("dim", [](const GLU::Impl& self) { return self.options.axis; }, "The axis.");
  def_shrink<Hardshrink>(nn, "Hardshrink", "0 in [-lambd, lambd], else x.");
  def_shrink<Softshrink>(nn, "Softshrink", "x moved by lambd towards 0, and no further.");
  say_inplace(
      add_layer<Threshold::Impl>(nn, "Threshold", "x where it is above the threshold, else value.")
          .def(
              "__init__",
              [](Threshold::Impl* self, double threshold, double value, bool) {
                construct(self, ThresholdOptions{threshold, value});
              },
              "threshold"_a, "value"_a, inplace())
          .def_prop_ro(
              "threshold", [](const Threshold::Impl& self) { return self.options.threshold; },
              "What is above it stays.")
          .def_prop_ro(
              "value", [](const Threshold::Impl& self) { return self.options.value; },
              "Of the rest."));
  add_layer<Softplus::Impl>(nn, "Softplus", "log(1 + exp(beta · x)) / beta.")
      .def(
          "__init__",
          [](Softplus::Impl* self, double beta, double threshold) {
            construct(self, SoftplusParams{beta, threshold});
          },
          "beta"_a = 1.0, "threshold"_a = 20.0)
      .def_prop_ro(
          "beta", [](const Softplus::Impl& self) { return self.options.beta; },
          "How sharp the bend is.")
      .def_prop_ro(
          "threshold", [](const Softplus::Impl& self) { return self.options.threshold; },
          "Where beta · x is above it, the result is x.");
  say_inplace(add_layer<Hardtanh::Impl>(nn, "Hardtanh", "x in [min_val, max_val].")
                  .def(
                      "__init__",
                      [](Hardtanh::Impl* self, double low, double high, bool) {
                        construct(self, HardtanhOptions{low, high});
                      },
                      "min_val"_a = -1.0, "max_val"_a = 1.0, inplace())
                  .def_prop_ro(
                      "min_val", [](const Hardtanh::Impl& self) { return self.options.low; },
                      "The least result.")
                  .def_prop_ro(
                      "max_val", [](const Hardtanh::Impl& self) { return self.options.high; },
                      "The largest result."));
  add_layer<ClippedReLU::Impl>(nn, "ClippedReLU", "x in [0, limit].")
      .def(
          "__init__", [](ClippedReLU::Impl* self, double limit) { construct(self, limit); },
          "limit"_a);
  add_layer<GELU::Impl>(nn, "GELU", "x · Φ(x); approximate='tanh' computes Φ by tanh.")
      .def(
          "__init__",
          [](GELU::Impl* self, const std::string& approximate) {
            const auto form =
                parse_word<GeluForm>("GELU: approximate", approximate,
                                     {{"none", GeluForm::erf}, {"tanh", GeluForm::tanh}});
            construct(self, GELUOptions{form});
          },
          "approximate"_a = "none")
      .def_prop_ro(
          "approximate",
          [](const GELU::Impl& self) {
            return self.options.form == GeluForm::tanh ? "tanh" : "none";
          },
          "How Φ is computed.");
  auto prelu = add_layer<PReLUImpl>(nn, "PReLU", "x where it is positive, else weight · x.");
  prelu.def(
      "__init__",
      [](PReLUImpl* self, int64_t parameters, double init, nb::handle device, nb::handle dtype) {
        construct(self, PReLUOptions{parameters, init});
        place(self, device, dtype);
      },
      "num_parameters"_a = 1, "init"_a = 0.25, "device"_a = nb::none(), "dtype"_a = nb::none());
  def_option(
      prelu, "num_parameters", [](const auto& o) { return o.parameters; },
      "One, or one for each channel.");
  def_option(prelu, "init", [](const auto& o) { return o.init; }, "What weight begins with.");
  def_member(prelu, "weight", &PReLUImpl::weight, "(num_parameters).");
}

}  // namespace mica::python
