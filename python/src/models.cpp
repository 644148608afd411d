// mica.models, and nn.summary.
#include "mica/models/models.h"

#include "mica/nn/summary.h"
#include "python/src/def.h"
#include "python/src/module_handle.h"

namespace mica::python {

void bind_summary(nb::module_& nn) {
  nb::class_<nn::Summary::Row>(nn, "SummaryRow", "One module of a Summary.")
      .def_ro("name", &nn::Summary::Row::name)
      .def_ro("type", &nn::Summary::Row::type)
      .def_ro("output", &nn::Summary::Row::output)
      .def_ro("parameters", &nn::Summary::Row::parameters)
      .def_ro("multiply_adds", &nn::Summary::Row::multiply_adds);
  nb::class_<nn::Summary>(nn, "Summary", "Prints as a table.")
      .def_ro("rows", &nn::Summary::rows)
      .def_ro("parameters", &nn::Summary::parameters)
      .def_ro("trainable", &nn::Summary::trainable)
      .def_ro("multiply_adds", &nn::Summary::multiply_adds)
      .def("__repr__", [](const nn::Summary& self) { return nn::to_string(self); });
  nn.def(
      "summary",
      [](nb::handle module, const Dims& input, nb::handle dtype) {
        return nn::summary(module_from(module), input, parse_options(dtype, nb::none()).dtype);
      },
      "module"_a, "input_size"_a, "dtype"_a = nb::none(),
      "What a network does to an input of that shape, batch included, layer by layer. Nothing is "
      "computed, and no memory is used.");
}

void bind_models(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "models");
  using Made = nn::Sequential (*)();
  for (const auto& [name, make, doc] :
       {std::tuple<const char*, Made, const char*>{
            "lenet", models::lenet, "Convolutions of 20 and 50 channels, 500 hidden units."},
        {"lenet6", models::lenet6, "LeNet with 6 and 16 channels, 120 hidden units."},
        {"simple_cnn", models::simple_cnn, "One convolution, pooling, one linear layer."},
        {"mnist_net", models::mnist_net, "Convolutions of 32 and 64 channels, dropout."}}) {
    scope.def(name, [f = make] { return module_to_python(f()); }, doc);
  }
  scope.def(
      "mlp",
      [](int64_t in, std::vector<int64_t> hidden, int64_t classes, const std::string& activation) {
        const auto word = parse_word<Activation>(
            "mlp: activation", activation,
            {{"none", Activation::none}, {"relu", Activation::relu}, {"gelu", Activation::gelu}});
        return module_to_python(models::mlp(
            {.in = in, .hidden = std::move(hidden), .classes = classes, .activation = word}));
      },
      "in_features"_a = 28 * 28, "hidden"_a = models::MlpOptions().hidden, "classes"_a = 10,
      "activation"_a = "relu", "Linear layers with an activation between them.");
  scope.def(
      "cnn",
      [](int64_t in, int64_t side, std::vector<int64_t> channels, int64_t classes, bool bias) {
        return module_to_python(models::cnn({.in = in,
                                             .side = side,
                                             .channels = std::move(channels),
                                             .classes = classes,
                                             .bias = bias}));
      },
      "in_channels"_a = 3, "side"_a = 32, "channels"_a = models::CnnOptions().channels,
      "classes"_a = 10, "bias"_a = true,
      "Convolutions of 3 by 3 with ReLU and pooling, then a linear layer; square images.");
  scope.def("names", models::names, "The names that make() knows.");
  scope.def(
      "make", [](const std::string& name) { return module_to_python(models::make(name)); },
      "name"_a, "A model by name.");
}

}  // namespace mica::python
