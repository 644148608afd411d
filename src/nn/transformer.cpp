#include "mica/nn/transformer.h"

#include <limits>

#include "mica/core/check.h"
#include "mica/nn/containers.h"
#include "mica/nn/dropout.h"
#include "mica/nn/init.h"
#include "mica/nn/linear.h"
#include "mica/nn/norms.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/triangle/triangle.h"

namespace mica::nn {
namespace {

using Parts = Members<Module>::Snapshot;

SequenceMasks masks_of(const std::optional<Tensor>& mask, const std::optional<Tensor>& padding) {
  return {.mask = mask.value_or(Tensor()), .padding = padding.value_or(Tensor())};
}

Values or_nothing(const Tensor& t) { return t.defined() ? Values(t) : Values(); }

/// By MultiheadAttention itself where nobody looks on, else as any module is called.
Tensor attend(const Module& module, const Tensor& query, const Tensor& memory,
              const SequenceMasks& masks) {
  const auto* attention = dynamic_cast<MultiheadAttentionImpl*>(module.impl().get());
  if (attention && attention->is_plain() && !attention->is_watched()) {
    const ModuleScope scope(attention->registered_name());
    return std::get<0>(attention->attend(query, memory, memory, masks));
  }
  Values mask = or_nothing(masks.mask);
  if (masks.causal && mask.is_nothing()) {
    const bool second = query.rank() == 3 && attention && attention->options.batch_first;
    mask = square_subsequent_mask(query.size(second ? 1 : 0), {query.dtype(), query.device()});
  }
  const Values padding = or_nothing(masks.padding);
  // A class of Python takes masks by PyTorch's names, among others.
  const bool own = !attention || !attention->is_plain();
  const Values result = own ? module(Values::dict({{"query", query},
                                                   {"key", memory},
                                                   {"value", memory},
                                                   {"key_padding_mask", padding},
                                                   {"attn_mask", mask}}))
                            : module(query, memory, memory, padding, mask);
  return std::get<0>(from_values<std::tuple<Tensor, Tensor>>(result, ValuesPath("attention")));
}

/// dropout(linear2(dropout(activation(linear1(x))))), with the dropout after it.
Tensor feed_forward(const Tensor& x, const Module& linear1, const Module& activation,
                    const Module& between, const Module& linear2, const Module& after) {
  return after(linear2(between(activation(linear1(x)))));
}

MultiheadAttention attention_of(const TransformerLayerOptions& o) {
  return MultiheadAttention({.width = o.width,
                             .heads = o.heads,
                             .dropout = o.dropout,
                             .bias = o.bias,
                             .batch_first = o.batch_first});
}
LayerNorm norm_of(const TransformerLayerOptions& o) {
  return LayerNorm({.shape = {o.width}, .eps = o.eps, .bias = o.bias});
}

/// The layers "layers.0", … and "norm" of a stack.
template <class Layer>
void add_stack(ModuleImpl& stack, const TransformerStackOptions& o, const char* type) {
  check(o.layers >= 1, "nn::{}: layers must be at least 1, got {}", type, o.layers);
  const ModuleList layers(NamedModules{});
  for (int64_t i = 0; i < o.layers; ++i) layers.push_back(Layer(o.layer));
  stack.register_module("layers", layers);
  if (o.norm) stack.register_module("norm", norm_of(o.layer));
}

/// A layer of a stack, which is watched or derived from at times as its attention is.
template <class Layer, class Direct, class... Given>
Tensor call_layer(const Module& layer, Direct&& direct, const Given&... given) {
  auto* typed = dynamic_cast<typename Layer::Impl*>(layer.impl().get());
  if (typed && !typed->is_watched()) {
    const ModuleScope scope(typed->registered_name());
    return direct(*typed);
  }
  return from_values<Tensor>(layer(given...), ValuesPath("layer"));
}

}  // namespace

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(const TransformerLayerOptions& o)
    : width_(o.width), heads_(o.heads), norm_first_(o.norm_first) {
  register_module("self_attn", attention_of(o));
  register_module("linear1", Linear({.in = o.width, .out = o.hidden, .bias = o.bias}));
  register_module("dropout", Dropout(o.dropout));
  register_module("linear2", Linear({.in = o.hidden, .out = o.width, .bias = o.bias}));
  register_module("norm1", norm_of(o));
  register_module("norm2", norm_of(o));
  register_module("dropout1", Dropout(o.dropout));
  register_module("dropout2", Dropout(o.dropout));
  register_module("activation", o.activation);
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& x, const std::optional<Tensor>& mask,
                                            const std::optional<Tensor>& padding) const {
  return run(x, masks_of(mask, padding));
}

Tensor TransformerEncoderLayerImpl::run(const Tensor& x, const SequenceMasks& masks) const {
  const Parts parts = children();
  const auto part = [&](size_t i) -> const Module& { return parts[i].second; };
  const auto attended = [&](const Tensor& t) { return part(6)(attend(part(0), t, t, masks)); };
  const auto fed = [&](const Tensor& t) {
    return feed_forward(t, part(1), part(8), part(2), part(3), part(7));
  };
  const Module &norm1 = part(4), &norm2 = part(5);
  if (norm_first_) {
    const Tensor y = x + attended(norm1(x));
    return y + fed(norm2(y));
  }
  const Tensor y = norm1(x + attended(x));
  return norm2(y + fed(y));
}

std::string TransformerEncoderLayerImpl::describe() const {
  return fmt::format("TransformerEncoderLayer(width={}, heads={})", width_, heads_);
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(const TransformerLayerOptions& o)
    : width_(o.width), heads_(o.heads), norm_first_(o.norm_first) {
  register_module("self_attn", attention_of(o));
  register_module("multihead_attn", attention_of(o));
  register_module("linear1", Linear({.in = o.width, .out = o.hidden, .bias = o.bias}));
  register_module("dropout", Dropout(o.dropout));
  register_module("linear2", Linear({.in = o.hidden, .out = o.width, .bias = o.bias}));
  for (const char* name : {"norm1", "norm2", "norm3"}) register_module(name, norm_of(o));
  for (const char* name : {"dropout1", "dropout2", "dropout3"})
    register_module(name, Dropout(o.dropout));
  register_module("activation", o.activation);
}

Tensor TransformerDecoderLayerImpl::forward(const Tensor& x, const Tensor& memory,
                                            const std::optional<Tensor>& mask,
                                            const std::optional<Tensor>& memory_mask,
                                            const std::optional<Tensor>& padding,
                                            const std::optional<Tensor>& memory_padding) const {
  return run(x, memory, masks_of(mask, padding), masks_of(memory_mask, memory_padding));
}

Tensor TransformerDecoderLayerImpl::run(const Tensor& x, const Tensor& memory,
                                        const SequenceMasks& masks,
                                        const SequenceMasks& memory_masks) const {
  const Parts parts = children();
  const auto part = [&](size_t i) -> const Module& { return parts[i].second; };
  const auto to_itself = [&](const Tensor& t) { return part(8)(attend(part(0), t, t, masks)); };
  const auto to_memory = [&](const Tensor& t) {
    return part(9)(attend(part(1), t, memory, memory_masks));
  };
  const auto fed = [&](const Tensor& t) {
    return feed_forward(t, part(2), part(11), part(3), part(4), part(10));
  };
  const Module &norm1 = part(5), &norm2 = part(6), &norm3 = part(7);
  if (norm_first_) {
    const Tensor y = x + to_itself(norm1(x));
    const Tensor z = y + to_memory(norm2(y));
    return z + fed(norm3(z));
  }
  const Tensor y = norm1(x + to_itself(x));
  const Tensor z = norm2(y + to_memory(y));
  return norm3(z + fed(z));
}

std::string TransformerDecoderLayerImpl::describe() const {
  return fmt::format("TransformerDecoderLayer(width={}, heads={})", width_, heads_);
}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerStackOptions& o) {
  add_stack<TransformerEncoderLayer>(*this, o, "TransformerEncoder");
}

Tensor TransformerEncoderImpl::forward(const Tensor& x, const std::optional<Tensor>& mask,
                                       const std::optional<Tensor>& padding) const {
  return run(x, masks_of(mask, padding));
}

Tensor TransformerEncoderImpl::run(const Tensor& x, const SequenceMasks& m) const {
  const Parts parts = children();
  Tensor y = x;
  for (const auto& [name, layer] : parts[0].second.impl()->children())
    y = call_layer<TransformerEncoderLayer>(
        layer, [&](const TransformerEncoderLayerImpl& l) { return l.run(y, m); }, y,
        or_nothing(m.mask), or_nothing(m.padding));
  return parts.size() > 1 ? parts[1].second(y) : y;
}

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerStackOptions& o) {
  add_stack<TransformerDecoderLayer>(*this, o, "TransformerDecoder");
}

Tensor TransformerDecoderImpl::forward(const Tensor& x, const Tensor& memory,
                                       const std::optional<Tensor>& mask,
                                       const std::optional<Tensor>& memory_mask,
                                       const std::optional<Tensor>& padding,
                                       const std::optional<Tensor>& memory_padding) const {
  return run(x, memory, masks_of(mask, padding), masks_of(memory_mask, memory_padding));
}

Tensor TransformerDecoderImpl::run(const Tensor& x, const Tensor& memory, const SequenceMasks& m,
                                   const SequenceMasks& of_memory) const {
  const Parts parts = children();
  Tensor y = x;
  for (const auto& [name, layer] : parts[0].second.impl()->children())
    y = call_layer<TransformerDecoderLayer>(
        layer, [&](const TransformerDecoderLayerImpl& l) { return l.run(y, memory, m, of_memory); },
        y, memory, or_nothing(m.mask), or_nothing(of_memory.mask), or_nothing(m.padding),
        or_nothing(of_memory.padding));
  return parts.size() > 1 ? parts[1].second(y) : y;
}

TransformerImpl::TransformerImpl(const TransformerOptions& o) {
  register_module("encoder", TransformerEncoder({o.layer, o.encoder_layers, true}));
  register_module("decoder", TransformerDecoder({o.layer, o.decoder_layers, true}));
  for (const auto& [name, part] : children())
    for (const Tensor& p : part.parameters())
      if (p.rank() > 1) init::xavier_uniform_(p);
}

Tensor TransformerImpl::forward(const Tensor& source, const Tensor& target,
                                const std::optional<Tensor>& source_mask,
                                const std::optional<Tensor>& target_mask,
                                const std::optional<Tensor>& memory_mask,
                                const std::optional<Tensor>& source_padding,
                                const std::optional<Tensor>& target_padding,
                                const std::optional<Tensor>& memory_padding) const {
  return run(source, target, masks_of(source_mask, source_padding),
             masks_of(target_mask, target_padding), masks_of(memory_mask, memory_padding));
}

Tensor TransformerImpl::run(const Tensor& source, const Tensor& target,
                            const SequenceMasks& source_masks, const SequenceMasks& target_masks,
                            const SequenceMasks& memory_masks) const {
  const Parts parts = children();
  const Tensor memory = parts[0].second.as<TransformerEncoder>()->run(source, source_masks);
  return parts[1].second.as<TransformerDecoder>()->run(target, memory, target_masks, memory_masks);
}

Tensor square_subsequent_mask(int64_t n, TensorOptions options) {
  check(n >= 0, "nn::square_subsequent_mask: the size must not be negative, got {}", n);
  return triu(full({n, n}, -std::numeric_limits<double>::infinity(), options), 1);
}

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& options)
    : Handle(options) {}
TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& options)
    : Handle(options) {}
TransformerEncoder::TransformerEncoder(const TransformerStackOptions& options) : Handle(options) {}
TransformerDecoder::TransformerDecoder(const TransformerStackOptions& options) : Handle(options) {}
Transformer::Transformer(const TransformerOptions& options) : Handle(options) {}

}  // namespace mica::nn
