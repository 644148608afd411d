#pragma once

#include <string>
#include <vector>

#include "mica/models/key_value_cache.h"
#include "mica/nn/embedding.h"
#include "mica/nn/linear.h"
#include "mica/nn/module.h"
#include "mica/nn/norms.h"

// GPT-2 with the names that Hugging Face's transformers gives its parts.
namespace mica::models {

struct GPT2Options {
  int64_t vocabulary = 50257;
  int64_t positions = 1024;
  int64_t width = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  double dropout = 0;       ///< of embeddings, weights of attention and what blocks add
  bool checkpoint = false;  ///< blocks keep nothing but their inputs for backward (checkpoint())
};
/// "gpt2", "gpt2-medium", "gpt2-large" or "gpt2-xl": 124, 355, 774 and 1558 million parameters.
GPT2Options gpt2_options(const std::string& name);

using GPT2Cache = KeyValueCache;

struct GPT2AttentionImpl : nn::ModuleImpl {
  explicit GPT2AttentionImpl(const GPT2Options& options);
  Tensor forward(const Tensor& x);  // (B, L, width)
  /// Of one token more, x (B, 1, width), whose key and value are written to the cache.
  Tensor step(const Tensor& x, const GPT2Cache& cache, size_t layer);

 private:
  GPT2Options options_;
  nn::Linear qkv_, out_;
};

struct GPT2MLPImpl : nn::ModuleImpl {
  explicit GPT2MLPImpl(const GPT2Options& options);
  Tensor forward(const Tensor& x);

 private:
  double dropout_;
  nn::Linear in_, out_;
};

struct GPT2BlockImpl : nn::ModuleImpl {
  explicit GPT2BlockImpl(const GPT2Options& options);
  Tensor forward(const Tensor& x);
  Tensor step(const Tensor& x, const GPT2Cache& cache, size_t layer);

 private:
  nn::LayerNorm norm1_;
  nn::Handle<GPT2AttentionImpl> attention_;
  nn::LayerNorm norm2_;
  nn::Handle<GPT2MLPImpl> mlp_;
};

/// The network without its last layer; that has the weights of `wte`.
struct GPT2ModelImpl : nn::ModuleImpl {
  explicit GPT2ModelImpl(const GPT2Options& options);
  /// Tokens (B, L) of an integer dtype, L at most `positions`, to (B, L, width).
  Tensor forward(const Tensor& tokens);
  /// The next tokens, (B), to (B, 1, width); the cache is one token longer then.
  Tensor step(const Tensor& tokens, const GPT2Cache& cache);

  nn::Embedding wte, wpe;

 private:
  GPT2Options options_;
  std::vector<nn::Handle<GPT2BlockImpl>> blocks_;
  nn::LayerNorm norm_;
};

struct GPT2Impl : nn::ModuleImpl {
  explicit GPT2Impl(const GPT2Options& options);
  /// Logits (B, L, vocabulary) of the token after each of tokens (B, L).
  Tensor forward(const Tensor& tokens);
  /// The mean loss of `targets` (B, L), the tokens after each.
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  /// An empty one for `batch` sequences, where the weights are.
  GPT2Cache make_cache(int64_t batch) const;
  /// Logits (B, vocabulary) of what follows when `tokens` (B) come next. Nothing of it depends on
  /// numbers that the host knows: compiled, each step is one plan.
  Tensor step(const Tensor& tokens, const GPT2Cache& cache);
  /// `tokens` (B, L) and `count` more, each the likeliest: i64 (B, L + count), at most `positions`.
  /// One compiled step takes a token after the other.
  Tensor generate(const Tensor& tokens, int64_t count);

  const GPT2Options options;
  nn::Handle<GPT2ModelImpl> transformer;
};
/// `GPT2(gpt2_options("gpt2"))`. Its keys are those of GPT2LMHeadModel,
/// "transformer.h.0.ln_1.weight"; weights of linear layers are (out, in), as everywhere in mica.
using GPT2 = nn::Handle<GPT2Impl>;

/// Hugging Face's state as GPT2's own: with or without "transformer." in front of the keys, the
/// weights (in, out) of its layers turned round, the constants it keeps left out.
nn::StateDict gpt2_from_huggingface(const nn::StateDict& state);

}  // namespace mica::models
