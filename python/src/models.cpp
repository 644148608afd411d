// mica.models, and nn.summary.
#include "mica/models/models.h"

#include <nanobind/stl/array.h>

#include "mica/models/resnet.h"

#include "mica/nn/summary.h"
#include "python/src/module_handle.h"
#include "python/src/words.h"

namespace mica::python {

void bind_summary(nb::module_& nn) {
  nb::class_<nn::Summary::Row>(nn, "SummaryRow", "One module of a Summary.")
      .def_ro("name", &nn::Summary::Row::name, "Dotted; empty for the module itself.")
      .def_ro("type", &nn::Summary::Row::type, "The layer with its options.")
      .def_ro("output", &nn::Summary::Row::output, "The shape of its result.")
      .def_ro("parameters", &nn::Summary::Row::parameters,
              "How many numbers its own parameters are; shared ones count once.")
      .def_ro("multiply_adds", &nn::Summary::Row::multiply_adds,
              "Of convolutions and matrix products.");
  nb::class_<nn::Summary>(nn, "Summary", "Prints as a table.")
      .def_ro("rows", &nn::Summary::rows, "In the order of the calls.")
      .def_ro("parameters", &nn::Summary::parameters, "How many numbers the parameters are.")
      .def_ro("trainable", &nn::Summary::trainable, "Those that require a gradient.")
      .def_ro("multiply_adds", &nn::Summary::multiply_adds, "Of all rows.")
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
    scope.def(name, [f = make] { return module_to_python(without_gil(f)); }, doc);
  }
  using MadeFor = nn::Module (*)(int64_t);
  for (const auto& [name, make] : {std::pair<const char*, MadeFor>{"resnet18", models::resnet18},
                                   {"resnet34", models::resnet34},
                                   {"resnet50", models::resnet50},
                                   {"resnet101", models::resnet101}})
    scope.def(
        name,
        [f = make](int64_t classes) {
          return module_to_python(without_gil([&] { return f(classes); }));
        },
        "classes"_a = 1000,
        "A residual network (v1.5) for images of 32×32 and more; its parts have torchvision's "
        "names.");
  scope.def(
      "resnet",
      [](std::array<int64_t, 4> blocks, bool bottleneck, int64_t in, int64_t classes) {
        const models::ResNetOptions options{blocks, bottleneck, in, classes};
        return module_to_python(without_gil([&] { return models::resnet(options); }));
      },
      "blocks"_a = models::ResNetOptions().blocks, "bottleneck"_a = true, "in_channels"_a = 3,
      "classes"_a = 1000, "A residual network with so many blocks in each of its four stages.");
  scope.def(
      "mlp",
      [](int64_t in, std::vector<int64_t> hidden, int64_t classes, const std::string& activation) {
        const auto word = parse_word<Activation>(
            "mlp: activation", activation,
            {{"none", Activation::none}, {"relu", Activation::relu}, {"gelu", Activation::gelu}});
        const models::MlpOptions options{
            .in = in, .hidden = std::move(hidden), .classes = classes, .activation = word};
        return module_to_python(without_gil([&] { return models::mlp(options); }));
      },
      "in_features"_a = 28 * 28, "hidden"_a = models::MlpOptions().hidden, "classes"_a = 10,
      "activation"_a = "relu", "Linear layers with an activation between them.");
  scope.def(
      "cnn",
      [](int64_t in, int64_t side, std::vector<int64_t> channels, int64_t classes, bool bias) {
        const models::CnnOptions options{.in = in,
                                         .side = side,
                                         .channels = std::move(channels),
                                         .classes = classes,
                                         .bias = bias};
        return module_to_python(without_gil([&] { return models::cnn(options); }));
      },
      "in_channels"_a = 3, "side"_a = 32, "channels"_a = models::CnnOptions().channels,
      "classes"_a = 10, "bias"_a = true,
      "Convolutions of 3 by 3 with ReLU and pooling, then a linear layer; square images.");
  scope.def("names", models::names, "The names that make() knows.");
  scope.def(
      "make",
      [](const std::string& name) {
        return module_to_python(without_gil([&] { return models::make(name); }));
      },
      "name"_a, "A model by name.");
}

}  // namespace mica::python
