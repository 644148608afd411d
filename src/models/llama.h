#pragma once

#include <string>
#include <vector>

#include "mica/models/key_value_cache.h"
#include "mica/nn/embedding.h"
#include "mica/nn/linear.h"
#include "mica/nn/norms.h"
#include "mica/nn/transformer.h"

// Llama and networks like it, with the names that Hugging Face's transformers gives its parts.
namespace mica::models {

struct LlamaOptions {
  int64_t vocabulary = 32000;
  int64_t positions = 4096;  ///< that generation has memory for
  int64_t width = 4096;
  int64_t hidden = 11008;  ///< between the layers of a block
  int64_t layers = 32;
  int64_t heads = 32;
  int64_t kv_heads = 0;  ///< of keys and values; `heads` unless given
  double eps = 1e-5;     ///< of the norms
  double rope_base = 10000;
  bool tied = false;  ///< the last layer has the weights of the embedding
};

struct LlamaAttentionImpl : nn::ModuleImpl {
  explicit LlamaAttentionImpl(const LlamaOptions& options);
  Tensor forward(const Tensor& x);  // (B, L, width)
  /// Of one token more, x (B, 1, width).
  Tensor step(const Tensor& x, const KeyValueCache& cache, size_t layer);

 private:
  /// Of x (B, L, width): (B, L, heads, E).
  Tensor heads_of(const nn::Linear& layer, const Tensor& x, int64_t heads) const;

  int64_t heads_, kv_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RotaryEmbedding rotary_;
};

struct LlamaBlockImpl : nn::ModuleImpl {
  explicit LlamaBlockImpl(const LlamaOptions& options);
  Tensor forward(const Tensor& x);
  Tensor step(const Tensor& x, const KeyValueCache& cache, size_t layer);

 private:
  nn::Handle<LlamaAttentionImpl> attention_;
  nn::SwiGLU mlp_;
  nn::RMSNorm norm1_, norm2_;
};

/// The network without its last layer.
struct LlamaModelImpl : nn::ModuleImpl {
  explicit LlamaModelImpl(const LlamaOptions& options);
  /// Tokens (B, L) of an integer dtype to (B, L, width).
  Tensor forward(const Tensor& tokens);
  /// The next tokens, (B), to (B, 1, width); the cache is one token longer then.
  Tensor step(const Tensor& tokens, const KeyValueCache& cache);

  nn::Embedding embed_tokens;

 private:
  std::vector<nn::Handle<LlamaBlockImpl>> blocks_;
  nn::RMSNorm norm_;
};

struct LlamaImpl : nn::ModuleImpl {
  explicit LlamaImpl(const LlamaOptions& options);
  /// Logits (B, L, vocabulary) of the token after each of tokens (B, L).
  Tensor forward(const Tensor& tokens);
  /// The mean loss of `targets` (B, L), the tokens after each.
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  KeyValueCache make_cache(int64_t batch) const;
  /// Logits (B, vocabulary) of what follows when `tokens` (B) come next.
  Tensor step(const Tensor& tokens, const KeyValueCache& cache);
  /// `tokens` (B, L) and `count` more, each the likeliest: i64 (B, L + count), at most `positions`.
  Tensor generate(const Tensor& tokens, int64_t count);

  const LlamaOptions options;
  nn::Handle<LlamaModelImpl> model;

 private:
  Tensor last_weight() const;
  nn::Linear last_;  ///< empty where its weights are the embedding's
};
/// `Llama({.width = 2048, .layers = 16, .heads = 32, .kv_heads = 8})`. Its keys are those of
/// LlamaForCausalLM, "model.layers.0.self_attn.q_proj.weight".
using Llama = nn::Handle<LlamaImpl>;

/// Hugging Face's state as Llama's own: constants left out, and the last layer where it is `tied`.
nn::StateDict llama_from_huggingface(const nn::StateDict& state, bool tied = false);

}  // namespace mica::models
