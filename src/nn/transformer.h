#pragma once

#include "mica/nn/activations.h"
#include "mica/nn/attention.h"

namespace mica::nn {

struct TransformerLayerOptions {
  int64_t width = 0;
  int64_t heads = 0;
  int64_t hidden = 2048;  ///< between the two linear layers
  double dropout = 0.1;
  Module activation = default_activation();
  double eps = 1e-5;  ///< of the norms
  bool batch_first = false;
  bool norm_first = false;  ///< each part is given the norm of what it adds to
  bool bias = true;
};

/// Attention of a sequence to itself, and two linear layers. Parts have PyTorch's names: self_attn,
/// linear1, linear2, norm1, norm2.
struct TransformerEncoderLayerImpl : ModuleImpl {
  explicit TransformerEncoderLayerImpl(const TransformerLayerOptions& options);
  /// x (L, N, width), or (N, L, width) with batch_first.
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask = std::nullopt,
                 const std::optional<Tensor>& padding = std::nullopt) const;
  Tensor run(const Tensor& x, const SequenceMasks& masks) const;
  std::string describe() const override;

 private:
  int64_t width_, heads_;
  bool norm_first_;
};
class TransformerEncoderLayer : public Handle<TransformerEncoderLayerImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  TransformerEncoderLayer(Nothing) : Handle(nullptr) {}
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
};

/// The same with attention to another sequence between them, multihead_attn, and norm3.
struct TransformerDecoderLayerImpl : ModuleImpl {
  explicit TransformerDecoderLayerImpl(const TransformerLayerOptions& options);
  /// x (L, N, width) that looks at memory (S, N, width).
  Tensor forward(const Tensor& x, const Tensor& memory,
                 const std::optional<Tensor>& mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt,
                 const std::optional<Tensor>& padding = std::nullopt,
                 const std::optional<Tensor>& memory_padding = std::nullopt) const;
  Tensor run(const Tensor& x, const Tensor& memory, const SequenceMasks& masks,
             const SequenceMasks& memory_masks) const;
  std::string describe() const override;

 private:
  int64_t width_, heads_;
  bool norm_first_;
};
class TransformerDecoderLayer : public Handle<TransformerDecoderLayerImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  TransformerDecoderLayer(Nothing) : Handle(nullptr) {}
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
};

struct TransformerStackOptions {
  TransformerLayerOptions layer;
  int64_t layers = 1;
  bool norm = false;  ///< a LayerNorm after the last layer
};

/// Layers one after the other: "layers.0" and so on, then "norm".
struct TransformerEncoderImpl : ModuleImpl {
  explicit TransformerEncoderImpl(const TransformerStackOptions& options);
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask = std::nullopt,
                 const std::optional<Tensor>& padding = std::nullopt) const;
  Tensor run(const Tensor& x, const SequenceMasks& masks) const;
};
/// `TransformerEncoder({.layer = {.width = 512, .heads = 8}, .layers = 6})`.
class TransformerEncoder : public Handle<TransformerEncoderImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  TransformerEncoder(Nothing) : Handle(nullptr) {}
  explicit TransformerEncoder(const TransformerStackOptions& options);
};

struct TransformerDecoderImpl : ModuleImpl {
  explicit TransformerDecoderImpl(const TransformerStackOptions& options);
  Tensor forward(const Tensor& x, const Tensor& memory,
                 const std::optional<Tensor>& mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt,
                 const std::optional<Tensor>& padding = std::nullopt,
                 const std::optional<Tensor>& memory_padding = std::nullopt) const;
  Tensor run(const Tensor& x, const Tensor& memory, const SequenceMasks& masks,
             const SequenceMasks& memory_masks) const;
};
class TransformerDecoder : public Handle<TransformerDecoderImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  TransformerDecoder(Nothing) : Handle(nullptr) {}
  explicit TransformerDecoder(const TransformerStackOptions& options);
};

struct TransformerOptions {
  TransformerLayerOptions layer = {.width = 512, .heads = 8};
  int64_t encoder_layers = 6;
  int64_t decoder_layers = 6;
};

/// An encoder whose result is the memory of a decoder, each with a norm at its end.
struct TransformerImpl : ModuleImpl {
  explicit TransformerImpl(const TransformerOptions& options);
  Tensor forward(const Tensor& source, const Tensor& target,
                 const std::optional<Tensor>& source_mask = std::nullopt,
                 const std::optional<Tensor>& target_mask = std::nullopt,
                 const std::optional<Tensor>& memory_mask = std::nullopt,
                 const std::optional<Tensor>& source_padding = std::nullopt,
                 const std::optional<Tensor>& target_padding = std::nullopt,
                 const std::optional<Tensor>& memory_padding = std::nullopt) const;
  Tensor run(const Tensor& source, const Tensor& target, const SequenceMasks& source_masks,
             const SequenceMasks& target_masks, const SequenceMasks& memory_masks) const;
};
/// `Transformer({.layer = {.width = 512, .heads = 8, .batch_first = true}})`.
class Transformer : public Handle<TransformerImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  Transformer(Nothing) : Handle(nullptr) {}
  explicit Transformer(const TransformerOptions& options = {});
};

/// (n, n), zero on the diagonal and below, -inf above: no element sees one that comes later.
Tensor square_subsequent_mask(int64_t n, TensorOptions options = {});

struct RotaryEmbeddingOptions {
  int64_t dim = 0;  ///< of a head; even
  double base = 10000;
  bool interleaved = false;  ///< pairs are neighbours, else elements of the two halves

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("dim", self.dim);
    f("base", self.base);
    f("interleaved", self.interleaved);
  }
};

/// Turns each pair of a query or key by an angle that grows with its position.
struct RotaryEmbeddingImpl : ModuleImpl {
  explicit RotaryEmbeddingImpl(const RotaryEmbeddingOptions& options);
  /// x (…, L, dim); positions, integers (L) or (B, L) of x (B, H, L, dim), are 0 to L - 1 unless
  /// given.
  Tensor forward(const Tensor& x, const std::optional<Tensor>& positions = std::nullopt) const;
  std::string describe() const override;

  const RotaryEmbeddingOptions options;
};
class RotaryEmbedding : public Handle<RotaryEmbeddingImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  RotaryEmbedding(Nothing) : Handle(nullptr) {}
  explicit RotaryEmbedding(const RotaryEmbeddingOptions& options);
  explicit RotaryEmbedding(int64_t dim);
};

struct SwiGLUOptions {
  int64_t width = 0;
  int64_t hidden = 0;
  bool bias = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("width", self.width);
    f("hidden", self.hidden);
    f("bias", self.bias);
  }
};

/// down_proj(silu(gate_proj(x)) · up_proj(x)), Llama's two layers with a gate and their names.
struct SwiGLUImpl : ModuleImpl {
  explicit SwiGLUImpl(const SwiGLUOptions& options);
  Tensor forward(const Tensor& x) const;
  std::string describe() const override;

  const SwiGLUOptions options;
};
class SwiGLU : public Handle<SwiGLUImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  SwiGLU(Nothing) : Handle(nullptr) {}
  explicit SwiGLU(const SwiGLUOptions& options);
};

}  // namespace mica::nn
