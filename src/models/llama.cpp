#include "mica/models/llama.h"

#include "mica/core/check.h"
#include "mica/models/evaluating.h"
#include "mica/nn/containers.h"
#include "mica/nn/init.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica::models {
namespace {

constexpr double kDeviation = 0.02;

nn::Linear linear_layer(int64_t in, int64_t out) {
  const nn::Linear layer({.in = in, .out = out, .bias = false});
  nn::init::normal_(layer->weight, 0, kDeviation);
  return layer;
}

int64_t kv_heads_of(const LlamaOptions& o) { return o.kv_heads ? o.kv_heads : o.heads; }

LlamaOptions checked(const LlamaOptions& o) {
  check(o.heads > 0 && o.width % o.heads == 0 && (o.width / o.heads) % 2 == 0,
        "llama: a head's width must be even, got {} and {} heads", o.width, o.heads);
  check(kv_heads_of(o) > 0 && o.heads % kv_heads_of(o) == 0,
        "llama: the heads must be a multiple of those of keys, got {} and {}", o.heads, o.kv_heads);
  return o;
}

}  // namespace

LlamaAttentionImpl::LlamaAttentionImpl(const LlamaOptions& o)
    : heads_(o.heads),
      kv_heads_(kv_heads_of(o)),
      q_(add("q_proj", linear_layer(o.width, o.width))),
      k_(add("k_proj", linear_layer(o.width, o.width / o.heads * kv_heads_))),
      v_(add("v_proj", linear_layer(o.width, o.width / o.heads * kv_heads_))),
      out_(add("o_proj", linear_layer(o.width, o.width))),
      rotary_(nn::RotaryEmbedding({.dim = o.width / o.heads, .base = o.rope_base})) {}

Tensor LlamaAttentionImpl::heads_of(const nn::Linear& layer, const Tensor& x, int64_t heads) const {
  const Tensor y = layer(x);
  return reshape(y, {x.size(0), x.size(1), heads, y.size(2) / heads});
}

Tensor LlamaAttentionImpl::forward(const Tensor& x) {
  const Tensor q = rotary_(transpose(heads_of(q_, x, heads_), 1, 2));
  const Tensor k = rotary_(transpose(heads_of(k_, x, kv_heads_), 1, 2));
  const Tensor v = transpose(heads_of(v_, x, kv_heads_), 1, 2);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true, .grouped = true});
  return out_(reshape(transpose(y, 1, 2), x.shape()));
}

Tensor LlamaAttentionImpl::step(const Tensor& x, const KeyValueCache& cache, size_t layer) {
  const auto turned = [&](const Tensor& t) {  // (B, 1, heads, E)
    return transpose(rotary_(transpose(t, 1, 2), cache.length), 1, 2);
  };
  return out_(attend_next(turned(heads_of(q_, x, heads_)), turned(heads_of(k_, x, kv_heads_)),
                          heads_of(v_, x, kv_heads_), cache, layer));
}

LlamaBlockImpl::LlamaBlockImpl(const LlamaOptions& o)
    : attention_(add("self_attn", nn::Handle<LlamaAttentionImpl>(o))),
      mlp_(add("mlp", nn::SwiGLU({.width = o.width, .hidden = o.hidden}))),
      norm1_(add("input_layernorm", nn::RMSNorm({.shape = {o.width}, .eps = o.eps}))),
      norm2_(add("post_attention_layernorm", nn::RMSNorm({.shape = {o.width}, .eps = o.eps}))) {
  for (const Tensor& weight : mlp_.parameters()) nn::init::normal_(weight, 0, kDeviation);
}

Tensor LlamaBlockImpl::forward(const Tensor& x) {
  const Tensor y = x + attention_(norm1_(x));
  return y + mlp_(norm2_(y));
}

Tensor LlamaBlockImpl::step(const Tensor& x, const KeyValueCache& cache, size_t layer) {
  const Tensor y = x + attention_->step(norm1_(x), cache, layer);
  return y + mlp_(norm2_(y));
}

LlamaModelImpl::LlamaModelImpl(const LlamaOptions& o)
    : embed_tokens(add("embed_tokens", nn::Embedding(o.vocabulary, o.width))), norm_(nullptr) {
  nn::init::normal_(embed_tokens->weight, 0, kDeviation);
  const nn::ModuleList blocks(nn::NamedModules{});
  for (int64_t i = 0; i < o.layers; ++i) {
    blocks_.emplace_back(o);
    blocks.push_back(blocks_.back());
  }
  add("layers", blocks);
  norm_ = add("norm", nn::RMSNorm({.shape = {o.width}, .eps = o.eps}));
}

Tensor LlamaModelImpl::forward(const Tensor& tokens) {
  check<ShapeError>(tokens.rank() == 2, "llama: expected tokens (B, L), got {}", tokens.shape());
  Tensor x = embed_tokens(tokens);
  for (const auto& block : blocks_) x = block(x);
  return norm_(x);
}

Tensor LlamaModelImpl::step(const Tensor& tokens, const KeyValueCache& cache) {
  Tensor x = unsqueeze(embed_tokens(tokens), 1);
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->step(x, cache, i);
  copy_(cache.length, cache.length + 1);
  return norm_(x);
}

LlamaImpl::LlamaImpl(const LlamaOptions& o)
    : options(checked(o)), model(add("model", nn::Handle<LlamaModelImpl>(o))), last_(nullptr) {
  if (!o.tied) last_ = add("lm_head", linear_layer(o.width, o.vocabulary));
}

Tensor LlamaImpl::last_weight() const {
  return options.tied ? model->embed_tokens->weight : last_->weight;
}

Tensor LlamaImpl::forward(const Tensor& tokens) { return linear(model(tokens), last_weight()); }

Tensor LlamaImpl::loss(const Tensor& tokens, const Tensor& targets) {
  return cross_entropy(reshape(forward(tokens), {-1, options.vocabulary}), reshape(targets, {-1}));
}

KeyValueCache LlamaImpl::make_cache(int64_t batch) const {
  return models::make_cache(
      {options.layers, options.positions, kv_heads_of(options), options.width / options.heads},
      batch, model->embed_tokens->weight);
}

Tensor LlamaImpl::step(const Tensor& tokens, const KeyValueCache& cache) {
  return squeeze(linear(model->step(tokens, cache), last_weight()), {1});
}

Tensor LlamaImpl::generate(const Tensor& tokens, int64_t count) {
  check<ShapeError>(tokens.rank() == 2 && tokens.size(0) > 0 && tokens.size(1) > 0 && count >= 0 &&
                        tokens.size(1) + count <= options.positions,
                    "llama: expected tokens (B, L) and at most {} with those to come, got {} and "
                    "{} more",
                    options.positions, tokens.shape(), count);
  const NoGrad guard;
  const Evaluating evaluating{nn::Module(shared_from_this())};
  const KeyValueCache cache = make_cache(tokens.size(0));
  return generate_tokens([&](const Tensor& token) { return argmax(this->step(token, cache), -1); },
                         tokens, count);
}

nn::StateDict llama_from_huggingface(const nn::StateDict& state, bool tied) {
  nn::StateDict own;
  for (const auto& [key, tensor] : state)
    if (!key.ends_with("rotary_emb.inv_freq") && !(tied && key == "lm_head.weight"))
      own.emplace(key, tensor);
  return own;
}

}  // namespace mica::models
