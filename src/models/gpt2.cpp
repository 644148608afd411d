#include "mica/models/gpt2.h"

#include <array>
#include <cmath>

#include "mica/autograd/checkpoint.h"
#include "mica/core/check.h"
#include "mica/models/evaluating.h"
#include "mica/nn/containers.h"
#include "mica/nn/init.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica::models {
namespace {

constexpr double kDeviation = 0.02;

/// A linear layer that starts as GPT-2's do.
nn::Linear linear_layer(int64_t in, int64_t out, double deviation) {
  const nn::Linear layer(in, out);
  nn::init::normal_(layer->weight, 0, deviation);
  nn::init::zeros_(layer->bias);
  return layer;
}
/// What adds to the residual stream starts smaller, the more layers add to it.
double residual_deviation(const GPT2Options& o) {
  return kDeviation / std::sqrt(2 * static_cast<double>(o.layers));
}

nn::Embedding embedding_of(int64_t rows, int64_t width) {
  const nn::Embedding layer(rows, width);
  nn::init::normal_(layer->weight, 0, kDeviation);
  return layer;
}

}  // namespace

GPT2Options gpt2_options(const std::string& name) {
  if (name == "gpt2") return {};
  if (name == "gpt2-medium") return {.width = 1024, .layers = 24, .heads = 16};
  if (name == "gpt2-large") return {.width = 1280, .layers = 36, .heads = 20};
  if (name == "gpt2-xl") return {.width = 1600, .layers = 48, .heads = 25};
  fail("gpt2: expected gpt2, gpt2-medium, gpt2-large or gpt2-xl, got {}", name);
}

GPT2AttentionImpl::GPT2AttentionImpl(const GPT2Options& o)
    : options_(o),
      qkv_(add("c_attn", linear_layer(o.width, 3 * o.width, kDeviation))),
      out_(add("c_proj", linear_layer(o.width, o.width, residual_deviation(o)))) {}

Tensor GPT2AttentionImpl::forward(const Tensor& x) {
  const double dropped = training() ? options_.dropout : 0;
  const Tensor y = packed_attention(qkv_(x), options_.heads, {.dropout = dropped, .causal = true});
  return dropout(out_(y), options_.dropout, training());
}

Tensor GPT2AttentionImpl::step(const Tensor& x, const GPT2Cache& cache, size_t layer) {
  const int64_t heads = options_.heads;
  const Tensor qkv = reshape(qkv_(x), {x.size(0), 1, 3, heads, options_.width / heads});
  return out_(attend_next(select(qkv, 2, 0), select(qkv, 2, 1), select(qkv, 2, 2), cache, layer));
}

GPT2MLPImpl::GPT2MLPImpl(const GPT2Options& o)
    : dropout_(o.dropout),
      in_(add("c_fc", linear_layer(o.width, 4 * o.width, kDeviation))),
      out_(add("c_proj", linear_layer(4 * o.width, o.width, residual_deviation(o)))) {}

Tensor GPT2MLPImpl::forward(const Tensor& x) {
  return dropout(out_(gelu(in_(x), GeluForm::tanh)), dropout_, training());
}

GPT2BlockImpl::GPT2BlockImpl(const GPT2Options& o)
    : norm1_(add("ln_1", nn::LayerNorm(o.width))),
      attention_(add("attn", nn::Handle<GPT2AttentionImpl>(o))),
      norm2_(add("ln_2", nn::LayerNorm(o.width))),
      mlp_(add("mlp", nn::Handle<GPT2MLPImpl>(o))) {}

Tensor GPT2BlockImpl::forward(const Tensor& x) {
  const Tensor y = x + attention_(norm1_(x));
  return y + mlp_(norm2_(y));
}

Tensor GPT2BlockImpl::step(const Tensor& x, const GPT2Cache& cache, size_t layer) {
  const Tensor y = x + attention_->step(norm1_(x), cache, layer);
  return y + mlp_(norm2_(y));
}

GPT2ModelImpl::GPT2ModelImpl(const GPT2Options& o)
    : wte(add("wte", embedding_of(o.vocabulary, o.width))),
      wpe(add("wpe", embedding_of(o.positions, o.width))),
      options_(o),
      norm_(nullptr) {
  check(o.heads > 0 && o.width % o.heads == 0,
        "gpt2: the width must be a multiple of the heads, got {} and {}", o.width, o.heads);
  nn::Sequential blocks(nn::NamedModules{});
  for (int64_t i = 0; i < o.layers; ++i) {
    blocks_.emplace_back(o);
    blocks.push_back(blocks_.back());
  }
  add("h", blocks);
  norm_ = add("ln_f", nn::LayerNorm(o.width));
}

Tensor GPT2ModelImpl::forward(const Tensor& tokens) {
  const int64_t length = tokens.size(-1);
  check<ShapeError>(tokens.rank() == 2 && length <= options_.positions,
                    "gpt2: expected tokens (B, L) with L at most {}, got {}", options_.positions,
                    tokens.shape());
  Tensor x = dropout(wte(tokens) + narrow(wpe->weight, 0, 0, length), options_.dropout, training());
  const bool checkpoints = options_.checkpoint && training() && grad_enabled();
  for (const auto& block : blocks_)
    x = checkpoints ? checkpoint([block](const Tensor& t) { return block(t); }, x) : block(x);
  return norm_(x);
}

Tensor GPT2ModelImpl::step(const Tensor& tokens, const GPT2Cache& cache) {
  Tensor x = unsqueeze(wte(tokens) + wpe(cache.length), 1);
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->step(x, cache, i);
  copy_(cache.length, cache.length + 1);
  return norm_(x);
}

GPT2Impl::GPT2Impl(const GPT2Options& o)
    : options(o), transformer(add("transformer", nn::Handle<GPT2ModelImpl>(o))) {}

Tensor GPT2Impl::forward(const Tensor& tokens) {
  return linear(transformer(tokens), transformer->wte->weight);
}

Tensor GPT2Impl::loss(const Tensor& tokens, const Tensor& targets) {
  const Tensor logits = forward(tokens);
  return cross_entropy(reshape(logits, {-1, options.vocabulary}), reshape(targets, {-1}));
}

GPT2Cache GPT2Impl::make_cache(int64_t batch) const {
  return models::make_cache(
      {options.layers, options.positions, options.heads, options.width / options.heads}, batch,
      transformer->wte->weight);
}

Tensor GPT2Impl::step(const Tensor& tokens, const GPT2Cache& cache) {
  return squeeze(linear(transformer->step(tokens, cache), transformer->wte->weight), {1});
}

Tensor GPT2Impl::generate(const Tensor& tokens, int64_t count) {
  check<ShapeError>(tokens.rank() == 2 && tokens.size(0) > 0 && tokens.size(1) > 0 && count >= 0 &&
                        tokens.size(1) + count <= options.positions,
                    "gpt2: expected tokens (B, L) and at most {} with those to come, got {} and "
                    "{} more",
                    options.positions, tokens.shape(), count);
  const NoGrad guard;
  const Evaluating evaluating{nn::Module(shared_from_this())};
  const GPT2Cache cache = make_cache(tokens.size(0));
  return generate_tokens([&](const Tensor& token) { return argmax(this->step(token, cache), -1); },
                         tokens, count);
}

nn::StateDict gpt2_from_huggingface(const nn::StateDict& state) {
  constexpr std::string_view kPrefix = "transformer.";
  constexpr std::array<std::string_view, 3> kLayers = {"c_attn.weight", "c_proj.weight",
                                                       "c_fc.weight"};
  nn::StateDict own;
  for (const auto& [key, tensor] : state) {
    const bool constant = key.ends_with(".attn.bias") || key.ends_with(".attn.masked_bias");
    if (constant || key == "lm_head.weight") continue;  // the latter is wte's
    bool turned = false;
    for (const std::string_view layer : kLayers) turned = turned || key.ends_with(layer);
    own.emplace(key.starts_with(kPrefix) ? key : std::string(kPrefix) + key,
                turned ? contiguous(transpose(tensor, 0, 1)) : tensor);
  }
  return own;
}

}  // namespace mica::models
