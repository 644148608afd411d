// The layers with weights but for normalisation, with PyTorch's constructor arguments.
#include "mica/nn/nn.h"
#include "python/src/layer.h"
#include "python/src/padding.h"

namespace mica::python {
namespace {

using namespace mica::nn;

PadMode parse_padding_mode(const char* name, const std::string& mode) {
  const std::string what = fmt::format("{}: padding_mode", name);
  return parse_word<PadMode>(what.c_str(), mode,
                             {{"zeros", PadMode::constant},
                              {"reflect", PadMode::reflect},
                              {"replicate", PadMode::replicate},
                              {"circular", PadMode::circular}});
}

/// The options that convolutions of both kinds have.
template <class Impl>
void def_sizes(Layer<Impl>& conv) {
  def_option(conv, "in_channels", [](const auto& o) { return o.in; }, "Of the input.");
  def_option(conv, "out_channels", [](const auto& o) { return o.out; }, "Of the result.");
  def_option(
      conv, "kernel_size", [](const auto& o) { return size_of_axes(o.kernel); },
      "The size of the kernel.");
  const auto axes = [](auto size) { return size_of_axes(size); };
  def_settable(
      conv, "stride", [](auto& o) -> auto& { return o.stride; },
      "From one place of the kernel to the next.", axes);
  def_settable(
      conv, "dilation", [](auto& o) -> auto& { return o.dilation; },
      "From one element of the kernel to the next.", axes);
  def_option(conv, "groups", [](const auto& o) { return o.groups; }, "Of channels.");
}

/// What PyTorch's convolutions say of themselves whatever they are made with.
template <class Size>
void say_not_transposed(nb::object conv) {
  conv.attr("transposed") = false;
  conv.attr("output_padding") = nb::tuple(nb::cast(size_of_axes(Size(0))));
}
void say_transposed(nb::object conv) {
  conv.attr("transposed") = true;
  conv.attr("padding_mode") = "zeros";
}

template <class Size>
void def_conv(nb::module_& nn, const char* name, const char* doc) {
  using Impl = ConvImpl<ConvLayerOptions<Size>>;
  auto conv = add_layer<Impl>(nn, name, doc);
  conv.def(
      "__init__",
      [name](Impl* self, int64_t in, int64_t out, SizeArgument<Size> kernel,
             SizeArgument<Size> stride, nb::handle padding, SizeArgument<Size> dilation,
             int64_t groups, bool bias, const std::string& mode, nb::handle device,
             nb::handle dtype) {
        construct(self, ConvLayerOptions<Size>{.in = in,
                                               .out = out,
                                               .kernel = kernel,
                                               .stride = stride,
                                               .padding = parse_padding<Size>(name, padding),
                                               .dilation = dilation,
                                               .groups = groups,
                                               .bias = bias,
                                               .padding_mode = parse_padding_mode(name, mode)});
        place(self, device, dtype);
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "dilation"_a = 1, "groups"_a = 1, "bias"_a = true, "padding_mode"_a = "zeros",
      "device"_a = nb::none(), "dtype"_a = nb::none());
  def_sizes(conv);
  conv.def_prop_rw(
      "padding",
      [](const Impl& self) -> nb::object {
        const auto& padding = self.options.padding;
        return padding.same_size ? nb::object(nb::str("same"))
                                 : nb::cast(size_of_axes(padding.before));
      },
      [name](Impl& self, nb::handle padding) {
        self.options.padding = parse_padding<Size>(name, padding);
        self.note_change();
      },
      "What is added on both sides of each axis, or \"same\".");
  def_option(
      conv, "padding_mode",
      [](const auto& o) {
        return o.padding_mode == PadMode::constant
                   ? "zeros"
                   : names_of(o.padding_mode)[size_t(o.padding_mode)];
      },
      "What lies outside.");
  say_not_transposed<Size>(conv);
  def_member(conv, "weight", &Impl::weight, "(out_channels, in_channels / groups, kernel…).");
  def_member(conv, "bias", &Impl::bias, "(out_channels), or None.");
}

template <class Size>
void def_conv_transpose(nb::module_& nn, const char* name, const char* doc) {
  using Impl = ConvImpl<ConvTransposeLayerOptions<Size>>;
  auto conv = add_layer<Impl>(nn, name, doc);
  conv.def(
      "__init__",
      [](Impl* self, int64_t in, int64_t out, SizeArgument<Size> kernel, SizeArgument<Size> stride,
         SizeArgument<Size> padding, SizeArgument<Size> output_padding, int64_t groups, bool bias,
         SizeArgument<Size> dilation, const std::string& mode, nb::handle device,
         nb::handle dtype) {
        check(mode == "zeros", "ConvTranspose: padding_mode must be 'zeros', got '{}'", mode);
        construct(self, ConvTransposeLayerOptions<Size>{.in = in,
                                                        .out = out,
                                                        .kernel = kernel,
                                                        .stride = stride,
                                                        .padding = padding,
                                                        .output_padding = output_padding,
                                                        .dilation = dilation,
                                                        .groups = groups,
                                                        .bias = bias});
        place(self, device, dtype);
      },
      "in_channels"_a, "out_channels"_a, "kernel_size"_a, "stride"_a = 1, "padding"_a = 0,
      "output_padding"_a = 0, "groups"_a = 1, "bias"_a = true, "dilation"_a = 1,
      "padding_mode"_a = "zeros", "device"_a = nb::none(), "dtype"_a = nb::none());
  def_sizes(conv);
  const auto axes = [](auto size) { return size_of_axes(size); };
  def_settable(
      conv, "padding", [](auto& o) -> auto& { return o.padding; },
      "What is taken from both sides of each axis of the result.", axes);
  def_settable(
      conv, "output_padding", [](auto& o) -> auto& { return o.output_padding; },
      "What is added at the end of each axis.", axes);
  say_transposed(conv);
  def_member(conv, "weight", &Impl::weight, "(in_channels, out_channels / groups, kernel…).");
  def_member(conv, "bias", &Impl::bias, "(out_channels), or None.");
}

void bind_bilinear(nb::module_& nn) {
  constexpr const char* kDoc = "(…, in1_features) and (…, in2_features) to (…, out_features).";
  Layer<BilinearImpl> layer(nn, "Bilinear", nb::type_slots(module_slots), kDoc);
  allow_copies<BilinearImpl>();
  layer.def(
      "__init__",
      [](BilinearImpl* self, int64_t in1, int64_t in2, int64_t out, bool bias, nb::handle device,
         nb::handle dtype) {
        construct(self, BilinearOptions{.in1 = in1, .in2 = in2, .out = out, .bias = bias});
        place(self, device, dtype);
      },
      "in1_features"_a, "in2_features"_a, "out_features"_a, "bias"_a = true,
      "device"_a = nb::none(), "dtype"_a = nb::none());
  layer.def(
      "forward",
      [](const BilinearImpl& self, const Tensor& a, const Tensor& b) { return self.forward(a, b); },
      "input1"_a, "input2"_a, ReleaseGil(), kDoc);
  def_option(layer, "in1_features", [](const auto& o) { return o.in1; }, "Of the first input.");
  def_option(layer, "in2_features", [](const auto& o) { return o.in2; }, "Of the second input.");
  def_option(layer, "out_features", [](const auto& o) { return o.out; }, "Of the result.");
  def_member(layer, "weight", &BilinearImpl::weight, "(out_features, in1_features, in2_features).");
  def_member(layer, "bias", &BilinearImpl::bias, "(out_features), or None.");
}

}  // namespace

void bind_linear_layers(nb::module_& nn) {
  auto linear = add_layer<LinearImpl>(nn, "Linear", "(…, in_features) to (…, out_features).");
  linear.def(
      "__init__",
      [](LinearImpl* self, int64_t in, int64_t out, bool bias, nb::handle device,
         nb::handle dtype) {
        construct(self, LinearOptions{.in = in, .out = out, .bias = bias});
        place(self, device, dtype);
      },
      "in_features"_a, "out_features"_a, "bias"_a = true, "device"_a = nb::none(),
      "dtype"_a = nb::none());
  linear.def_prop_ro(
      "in_features", [](const LinearImpl& self) { return self.options.in; },
      "The last axis of its input.");
  linear.def_prop_ro(
      "out_features", [](const LinearImpl& self) { return self.options.out; },
      "The last axis of its result.");
  def_member(linear, "weight", &LinearImpl::weight, "(out_features, in_features).");
  def_member(linear, "bias", &LinearImpl::bias, "(out_features), or None.");
  bind_bilinear(nn);

  auto embedding = add_layer<EmbeddingImpl>(
      nn, "Embedding", "Indices (…) of an integer dtype to rows (…, embedding_dim) of a table.");
  embedding.def(
      "__init__",
      [](EmbeddingImpl* self, int64_t rows, int64_t dim, std::optional<int64_t> padding_idx,
         std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq, bool /*sparse*/,
         nb::handle device, nb::handle dtype) {
        check<Unsupported>(!scale_grad_by_freq, "nn.Embedding: scale_grad_by_freq is not there");
        construct(self, EmbeddingOptions{.rows = rows,
                                         .dim = dim,
                                         .padding_idx = padding_idx,
                                         .max_norm = max_norm.value_or(0),
                                         .norm_type = norm_type});
        place(self, device, dtype);
      },
      "num_embeddings"_a, "embedding_dim"_a, "padding_idx"_a = nb::none(),
      "max_norm"_a = nb::none(), "norm_type"_a = 2.0, "scale_grad_by_freq"_a = false,
      "sparse"_a = false, nb::kw_only(), "device"_a = nb::none(), "dtype"_a = nb::none(),
      "sparse is taken without effect: gradients are dense, with the same values.");
  def_option(embedding, "num_embeddings", [](const auto& o) { return o.rows; }, "Rows.");
  def_option(embedding, "embedding_dim", [](const auto& o) { return o.dim; }, "Of a row.");
  def_option(
      embedding, "padding_idx", [](const auto& o) { return o.padding_idx; },
      "The row that is not trained, or None.");
  def_option(
      embedding, "max_norm",
      [](const auto& o) { return o.max_norm > 0 ? std::optional(o.max_norm) : std::nullopt; },
      "What longer rows are made, or None.");
  def_option(embedding, "norm_type", [](const auto& o) { return o.norm_type; }, "Which norm.");
  def_member(embedding, "weight", &EmbeddingImpl::weight, "(num_embeddings, embedding_dim).");
}

void bind_conv_layers(nb::module_& nn) {
  def_conv<int64_t>(nn, "Conv1d", "(N, in_channels, L) to (N, out_channels, L').");
  def_conv<Size2>(nn, "Conv2d", "(N, in_channels, H, W) to (N, out_channels, H', W').");
  def_conv<Size3>(nn, "Conv3d", "(N, in_channels, D, H, W) to (N, out_channels, D', H', W').");
  def_conv_transpose<int64_t>(nn, "ConvTranspose1d",
                              "(N, in_channels, L) to (N, out_channels, L').");
  def_conv_transpose<Size2>(nn, "ConvTranspose2d",
                            "(N, in_channels, H, W) to (N, out_channels, H', W').");
  def_conv_transpose<Size3>(nn, "ConvTranspose3d",
                            "(N, in_channels, D, H, W) to (N, out_channels, D', H', W').");
}

void bind_layers(nb::module_& nn) {
  bind_containers(nn);
  bind_linear_layers(nn);
  bind_conv_layers(nn);
  bind_norm_layers(nn);
  bind_activation_layers(nn);
  bind_pooling_layers(nn);
  bind_image_layers(nn);
  bind_joined_layers(nn);
  bind_recurrent_layers(nn);
  bind_transformer_layers(nn);
}

}  // namespace mica::python
