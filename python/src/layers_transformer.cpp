// Attention, layers of transformers and their parts, with PyTorch's arguments.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "mica/nn/nn.h"
#include "python/src/layer.h"
#include "python/src/words.h"

namespace mica::python {

/// Says whether Python's class has a forward of its own: a layer that has not may be asked for its
/// result alone.
template <>
struct Overridable<nn::MultiheadAttentionImpl> : nn::WithForward<nn::MultiheadAttentionImpl> {
  using Base = nn::MultiheadAttentionImpl;
  using Made = nn::WithForward<Base>;
  NB_TRAMPOLINE(Made);
  explicit Overridable(const Base& other) : Made(other) {}
  Overridable(WithoutGil /*tag*/, const nn::MultiheadAttentionOptions& given)
      : Made(released(given)) {}

  bool is_plain() const override { return !OverriddenForward(nb_trampoline).is_there(); }
  Values call(const Values& inputs) override {
    if (is_plain()) return Made::call(inputs);
    const nb::gil_scoped_acquire acquire;
    return call_python(nb_trampoline.base(), inputs);
  }
  std::string describe() const override {
    const nb::gil_scoped_acquire acquire;
    return describe_python(nb_trampoline.base(), Base::describe());
  }
};

namespace {

using namespace mica::nn;

using Maybe = std::optional<Tensor>;

SequenceMasks masks_of(const Maybe& mask, const Maybe& padding, bool causal) {
  // With a mask, is_causal says that the mask is the causal one.
  return {.mask = mask.value_or(Tensor()),
          .padding = padding.value_or(Tensor()),
          .causal = causal && !mask};
}

/// A word, a module, or a function, which becomes a module.
Module parse_activation(const char* what, nb::handle given) {
  if (nb::isinstance<nb::str>(given))
    return parse_word<Module (*)()>(
        what, nb::cast<std::string>(given),
        {{"relu", [] { return Module(ReLU()); }}, {"gelu", [] { return Module(GELU()); }}})();
  if (nb::isinstance<ModuleImpl>(given)) return module_from(given);
  if (!PyCallable_Check(given.ptr()))
    raise_type_error("{} must be 'relu', 'gelu', a module or a function, got {}", what,
                     class_name(given));
  return module_from(nb::module_::import_("mica.nn.transformer").attr("FunctionModule")(given));
}

constexpr const char* kAttention =
    "Attention of query (L, N, embed_dim) to key (S, N, kdim) and value (S, N, vdim), with "
    "batch_first (N, L, embed_dim) and so on, or without N: the result, and the weights (N, L, S) "
    "or None. Masks are True where a query does not look at a key, or numbers that are added to "
    "the scores. A query that may look at no key gets the bias alone. Without need_weights the "
    "scores are never stored.";

void bind_attention(nb::module_& nn) {
  using Impl = MultiheadAttentionImpl;
  Layer<Impl> layer(nn, "MultiheadAttention", nb::type_slots(module_slots), kAttention);
  allow_copies<Impl>();
  layer.def(
      "__init__",
      [](Impl* self, int64_t width, int64_t heads, double dropout, bool bias, bool add_bias_kv,
         bool add_zero_attn, std::optional<int64_t> kdim, std::optional<int64_t> vdim,
         bool batch_first, nb::handle device, nb::handle dtype) {
        check<Unsupported>(!add_bias_kv && !add_zero_attn,
                           "MultiheadAttention: keys that no input has (add_bias_kv, "
                           "add_zero_attn) are not there");
        construct(self, MultiheadAttentionOptions{.width = width,
                                                  .heads = heads,
                                                  .dropout = dropout,
                                                  .bias = bias,
                                                  .key_width = kdim.value_or(width),
                                                  .value_width = vdim.value_or(width),
                                                  .batch_first = batch_first});
        place(self, device, dtype);
      },
      "embed_dim"_a, "num_heads"_a, "dropout"_a = 0.0, "bias"_a = true, "add_bias_kv"_a = false,
      "add_zero_attn"_a = false, "kdim"_a = nb::none(), "vdim"_a = nb::none(),
      "batch_first"_a = false, "device"_a = nb::none(), "dtype"_a = nb::none());
  layer.def(
      "forward",
      [](const Impl& self, const Tensor& query, const Tensor& key, const Tensor& value,
         const Maybe& padding, bool need_weights, const Maybe& mask, bool average,
         bool causal) -> std::tuple<Tensor, Maybe> {
        using Weights = Impl::Weights;
        const Weights wanted = !need_weights ? Weights::none
                               : average     ? Weights::mean
                                             : Weights::all;
        const auto [y, weights] =
            self.attend(query, key, value, masks_of(mask, padding, causal), wanted);
        return {y, weights.defined() ? Maybe(weights) : std::nullopt};
      },
      "query"_a, "key"_a, "value"_a, "key_padding_mask"_a = nb::none(), "need_weights"_a = true,
      "attn_mask"_a = nb::none(), "average_attn_weights"_a = true, "is_causal"_a = false,
      ReleaseGil(), kAttention);
  def_member(layer, "in_proj_weight", &Impl::in_proj_weight,
             "(3 embed_dim, embed_dim), or None where kdim or vdim differ.");
  def_member(layer, "q_proj_weight", &Impl::q_proj_weight, "(embed_dim, embed_dim), or None.");
  def_member(layer, "k_proj_weight", &Impl::k_proj_weight, "(embed_dim, kdim), or None.");
  def_member(layer, "v_proj_weight", &Impl::v_proj_weight, "(embed_dim, vdim), or None.");
  def_member(layer, "in_proj_bias", &Impl::in_proj_bias, "(3 embed_dim), or None.");
  const auto option = [&](const char* name, auto member, const char* doc) {
    layer.def_prop_ro(name, [member](const Impl& self) { return self.options.*member; }, doc);
  };
  option("embed_dim", &MultiheadAttentionOptions::width, "Of queries and results.");
  option("num_heads", &MultiheadAttentionOptions::heads, "How many.");
  option("dropout", &MultiheadAttentionOptions::dropout, "Of the weights, in training.");
  option("batch_first", &MultiheadAttentionOptions::batch_first, "Inputs are (N, L, embed_dim).");
  option("kdim", &MultiheadAttentionOptions::key_width, "Of keys.");
  option("vdim", &MultiheadAttentionOptions::value_width, "Of values.");
  def_option(layer, "head_dim", [](const auto& o) { return o.width / o.heads; }, "Of a head.");
  layer.attr("bias_k") = layer.attr("bias_v") = nb::none();
  layer.attr("add_zero_attn") = false;
}

/// What pickle makes a layer with, an attribute of the object: it has its parts from the file.
constexpr const char* kMadeWith = "_made_with";

template <class Impl>
void note_made_with(Impl* self, const TransformerLayerOptions& o) {
  const nb::object object = nb::find(self);
  const nb::str name(kMadeWith);
  const nb::tuple made_with = nb::make_tuple(o.width, o.heads, o.norm_first);
  if (object.is_valid() && PyObject_GenericSetAttr(object.ptr(), name.ptr(), made_with.ptr()) < 0)
    nb::raise_python_error();
}

template <class Impl>
Remake remake_transformer_layer() {
  return {[](nb::handle self) {
            if (!nb::hasattr(self, kMadeWith))
              raise_type_error("a {} that C++ made cannot be pickled", class_name(self));
            return nb::object(self.attr(kMadeWith));
          },
          [](nb::handle object, nb::handle made_with) {
            const TransformerLayerOptions o{.width = nb::cast<int64_t>(made_with[0]),
                                            .heads = nb::cast<int64_t>(made_with[1]),
                                            .hidden = 1,
                                            .norm_first = nb::cast<bool>(made_with[2])};
            new (nb::inst_ptr<Impl>(object)) Overridable<Impl>(WithoutGil(), o);
          }};
}

template <class Impl>
Layer<Impl> add_transformer_layer(nb::module_& nn, const char* name, const char* doc) {
  Layer<Impl> layer(nn, name, nb::type_slots(module_slots), doc);
  allow_copies<Impl>();
  set_remake(nb::type<Impl>(), remake_transformer_layer<Impl>());
  layer.def(
      "__init__",
      [](Impl* self, int64_t width, int64_t heads, int64_t hidden, double dropout,
         nb::handle activation, double eps, bool batch_first, bool norm_first, bool bias,
         nb::handle device, nb::handle dtype) {
        const TransformerLayerOptions o{
            .width = width,
            .heads = heads,
            .hidden = hidden,
            .dropout = dropout,
            .activation = parse_activation("Transformer: activation", activation),
            .eps = eps,
            .batch_first = batch_first,
            .norm_first = norm_first,
            .bias = bias};
        construct(self, o);
        place(self, device, dtype);
        note_made_with(self, o);
      },
      "d_model"_a, "nhead"_a, "dim_feedforward"_a = 2048, "dropout"_a = 0.1,
      "activation"_a = "relu", "layer_norm_eps"_a = 1e-5, "batch_first"_a = false,
      "norm_first"_a = false, "bias"_a = true, "device"_a = nb::none(), "dtype"_a = nb::none());
  layer.def_prop_ro(
      "norm_first", [](nb::handle self) { return nb::object(self.attr(kMadeWith)[2]); },
      "Whether each part is given the norm of what it adds to.");
  return layer;
}

void bind_stacked_layers(nb::module_& nn) {
  constexpr const char* kEncoder =
      "Attention of src (L, N, d_model) to itself and two linear layers, each added to what it was "
      "given. Masks are MultiheadAttention's.";
  add_transformer_layer<TransformerEncoderLayerImpl>(nn, "TransformerEncoderLayer", kEncoder)
      .def(
          "forward",
          [](const TransformerEncoderLayerImpl& self, const Tensor& src, const Maybe& mask,
             const Maybe& padding,
             bool causal) { return self.run(src, masks_of(mask, padding, causal)); },
          "src"_a, "src_mask"_a = nb::none(), "src_key_padding_mask"_a = nb::none(),
          "is_causal"_a = false, ReleaseGil(), kEncoder);
  constexpr const char* kDecoder =
      "TransformerEncoderLayer with attention to memory (S, N, d_model) between its parts.";
  add_transformer_layer<TransformerDecoderLayerImpl>(nn, "TransformerDecoderLayer", kDecoder)
      .def(
          "forward",
          [](const TransformerDecoderLayerImpl& self, const Tensor& tgt, const Tensor& memory,
             const Maybe& mask, const Maybe& memory_mask, const Maybe& padding,
             const Maybe& memory_padding, bool causal, bool memory_causal) {
            return self.run(tgt, memory, masks_of(mask, padding, causal),
                            masks_of(memory_mask, memory_padding, memory_causal));
          },
          "tgt"_a, "memory"_a, "tgt_mask"_a = nb::none(), "memory_mask"_a = nb::none(),
          "tgt_key_padding_mask"_a = nb::none(), "memory_key_padding_mask"_a = nb::none(),
          "tgt_is_causal"_a = false, "memory_is_causal"_a = false, ReleaseGil(), kDecoder);
}

void bind_parts(nb::module_& nn) {
  constexpr const char* kRotary =
      "Turns each pair of the elements of x (…, L, dim) by an angle that grows with its position, "
      "0 to L - 1 unless positions, (L) or (B, L), say otherwise. Pairs are an element of the "
      "first half with one of the second, as Llama's, or neighbours if interleaved.";
  Layer<RotaryEmbeddingImpl> rotary(nn, "RotaryEmbedding", nb::type_slots(module_slots), kRotary);
  allow_copies<RotaryEmbeddingImpl>();
  rotary.def(
      "__init__",
      [](RotaryEmbeddingImpl* self, int64_t dim, double base, bool interleaved) {
        construct(self,
                  RotaryEmbeddingOptions{.dim = dim, .base = base, .interleaved = interleaved});
      },
      "dim"_a, "base"_a = 10000.0, "interleaved"_a = false);
  rotary.def(
      "forward",
      [](const RotaryEmbeddingImpl& self, const Tensor& x, const Maybe& positions) {
        return self.forward(x, positions);
      },
      "x"_a, "positions"_a = nb::none(), ReleaseGil(), kRotary);
  add_layer<SwiGLUImpl>(nn, "SwiGLU", "down_proj(silu(gate_proj(input)) * up_proj(input)).")
      .def(
          "__init__",
          [](SwiGLUImpl* self, int64_t width, int64_t hidden, bool bias) {
            construct(self, SwiGLUOptions{.width = width, .hidden = hidden, .bias = bias});
          },
          "dim"_a, "hidden_dim"_a, "bias"_a = false);
  nn.def(
      "square_subsequent_mask",
      [](int64_t n, nb::handle dtype, nb::handle device) {
        return square_subsequent_mask(n, parse_options(dtype, device));
      },
      "size"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      "(size, size), zero on the diagonal and below, -inf above.");
}

}  // namespace

void bind_transformer_layers(nb::module_& nn) {
  bind_attention(nn);
  bind_stacked_layers(nn);
  bind_parts(nn);
}

}  // namespace mica::python
