#include "mica/models/bert.h"

#include "mica/core/check.h"
#include "mica/nn/containers.h"
#include "mica/nn/init.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::models {
namespace {

constexpr double kDeviation = 0.02;

nn::Linear linear_layer(int64_t in, int64_t out) {
  const nn::Linear layer(in, out);
  nn::init::normal_(layer->weight, 0, kDeviation);
  nn::init::zeros_(layer->bias);
  return layer;
}
nn::Embedding embedding_of(int64_t rows, int64_t width) {
  const nn::Embedding layer(rows, width);
  nn::init::normal_(layer->weight, 0, kDeviation);
  return layer;
}
nn::LayerNorm norm_of(const BertOptions& o) {
  return nn::LayerNorm({.shape = {o.width}, .eps = o.eps});
}

struct EmbeddingsImpl : nn::ModuleImpl {
  explicit EmbeddingsImpl(const BertOptions& o)
      : dropout_(o.dropout),
        words_(add("word_embeddings", embedding_of(o.vocabulary, o.width))),
        places_(add("position_embeddings", embedding_of(o.positions, o.width))),
        types_(add("token_type_embeddings", embedding_of(o.types, o.width))),
        norm_(add("LayerNorm", norm_of(o))) {}

  Tensor forward(const Tensor& tokens, const std::optional<Tensor>& types) {
    const Tensor places = narrow(places_->weight, 0, 0, tokens.size(1));
    const Tensor kinds = types ? types_(*types) : narrow(types_->weight, 0, 0, 1);
    return dropout(norm_(words_(tokens) + kinds + places), dropout_, training());
  }

 private:
  double dropout_;
  nn::Embedding words_, places_, types_;
  nn::LayerNorm norm_;
};

/// A linear layer, whose result is added to what came before, and a norm.
struct AddedImpl : nn::ModuleImpl {
  AddedImpl(const BertOptions& o, int64_t in)
      : dropout_(o.dropout),
        dense_(add("dense", linear_layer(in, o.width))),
        norm_(add("LayerNorm", norm_of(o))) {}
  Tensor forward(const Tensor& x, const Tensor& before) {
    return norm_(dropout(dense_(x), dropout_, training()) + before);
  }

 private:
  double dropout_;
  nn::Linear dense_;
  nn::LayerNorm norm_;
};

struct SelfAttentionImpl : nn::ModuleImpl {
  explicit SelfAttentionImpl(const BertOptions& o)
      : options_(o),
        query_(add("query", linear_layer(o.width, o.width))),
        key_(add("key", linear_layer(o.width, o.width))),
        value_(add("value", linear_layer(o.width, o.width))) {}
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask) {
    const auto heads = [&](const nn::Linear& layer) {
      const Shape shape = {x.size(0), x.size(1), options_.heads, options_.width / options_.heads};
      return transpose(reshape(layer(x), shape), 1, 2);
    };
    const Tensor y = scaled_dot_product_attention(
        heads(query_), heads(key_), heads(value_),
        {.mask = mask.value_or(Tensor()), .dropout = training() ? options_.dropout : 0});
    return reshape(transpose(y, 1, 2), x.shape());
  }

 private:
  BertOptions options_;
  nn::Linear query_, key_, value_;
};

struct AttentionImpl : nn::ModuleImpl {
  explicit AttentionImpl(const BertOptions& o)
      : self_(add("self", nn::Handle<SelfAttentionImpl>(o))),
        output_(add("output", nn::Handle<AddedImpl>(o, o.width))) {}
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask) {
    return output_(self_(x, mask), x);
  }

 private:
  nn::Handle<SelfAttentionImpl> self_;
  nn::Handle<AddedImpl> output_;
};

/// A linear layer named "dense" and a function after it.
template <auto function>
struct DenseImpl : nn::ModuleImpl {
  DenseImpl(int64_t in, int64_t out) : dense_(add("dense", linear_layer(in, out))) {}
  Tensor forward(const Tensor& x) { return function(dense_(x)); }

 private:
  nn::Linear dense_;
};
Tensor exact_gelu(const Tensor& x) { return gelu(x, GeluForm::erf); }

struct BlockImpl : nn::ModuleImpl {
  explicit BlockImpl(const BertOptions& o)
      : attention_(add("attention", nn::Handle<AttentionImpl>(o))),
        between_(add("intermediate", nn::Handle<DenseImpl<exact_gelu>>(o.width, o.hidden))),
        output_(add("output", nn::Handle<AddedImpl>(o, o.hidden))) {}
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask) {
    const Tensor y = attention_(x, mask);
    return output_(between_(y), y);
  }

 private:
  nn::Handle<AttentionImpl> attention_;
  nn::Handle<DenseImpl<exact_gelu>> between_;
  nn::Handle<AddedImpl> output_;
};

struct EncoderImpl : nn::ModuleImpl {
  explicit EncoderImpl(const BertOptions& o) {
    const nn::ModuleList blocks(nn::NamedModules{});
    for (int64_t i = 0; i < o.layers; ++i) {
      blocks_.emplace_back(o);
      blocks.push_back(blocks_.back());
    }
    add("layer", blocks);
  }
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask) {
    Tensor y = x;
    for (const auto& block : blocks_) y = block(y, mask);
    return y;
  }

 private:
  std::vector<nn::Handle<BlockImpl>> blocks_;
};

}  // namespace

BertOptions bert_options(const std::string& name) {
  if (name == "bert-base-uncased") return {};
  if (name == "bert-large-uncased")
    return {.width = 1024, .hidden = 4096, .layers = 24, .heads = 16};
  if (name == "all-MiniLM-L6-v2") return {.width = 384, .hidden = 1536, .layers = 6};
  fail("bert: expected bert-base-uncased, bert-large-uncased or all-MiniLM-L6-v2, got {}", name);
}

BertImpl::BertImpl(const BertOptions& o) : options(o) {
  check(o.heads > 0 && o.width % o.heads == 0,
        "bert: the width must be a multiple of the heads, got {} and {}", o.width, o.heads);
  add("embeddings", nn::Handle<EmbeddingsImpl>(o));
  add("encoder", nn::Handle<EncoderImpl>(o));
  add("pooler",
      nn::Handle<DenseImpl<static_cast<Tensor (*)(const Tensor&)>(tanh)>>(o.width, o.width));
}

std::tuple<Tensor, Tensor> BertImpl::forward(const Tensor& tokens,
                                             const std::optional<Tensor>& mask,
                                             const std::optional<Tensor>& types) const {
  check<ShapeError>(
      tokens.rank() == 2 && tokens.size(1) >= 1 && tokens.size(1) <= options.positions,
      "bert: expected tokens (B, L) with L at most {}, got {}", options.positions, tokens.shape());
  std::optional<Tensor> seen;
  if (mask) {
    check<ShapeError>(mask->shape() == tokens.shape(), "bert: expected a mask {}, got {}",
                      tokens.shape(), mask->shape());
    seen = reshape(ne(*mask, 0), {tokens.size(0), 1, 1, tokens.size(1)});
  }
  const auto parts = children();
  const Values given = types ? Values::list({tokens, *types}) : Values::list({tokens, Values()});
  const Values embedded = parts[0].second(given);
  const Values hidden = parts[1].second(embedded, seen ? Values(*seen) : Values());
  const Tensor x = from_values<Tensor>(hidden, ValuesPath("encoder"));
  return {x, parts[2].second(select(x, 1, 0))};
}

nn::StateDict bert_from_huggingface(const nn::StateDict& state) {
  constexpr std::string_view kPrefix = "bert.";
  nn::StateDict own;
  for (const auto& [key, tensor] : state) {
    const std::string name = key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key;
    const bool part = name.starts_with("embeddings.") || name.starts_with("encoder.") ||
                      name.starts_with("pooler.");
    if (part && name != "embeddings.position_ids") own.emplace(name, tensor);
  }
  return own;
}

Tensor sentence_embedding(const Tensor& hidden, const Tensor& mask) {
  check<ShapeError>(hidden.rank() == 3 && mask.rank() == 2 && hidden.size(0) == mask.size(0) &&
                        hidden.size(1) == mask.size(1),
                    "sentence_embedding: expected (B, L, width) and (B, L), got {} and {}",
                    hidden.shape(), mask.shape());
  const Tensor weights = unsqueeze(cast(ne(mask, 0), hidden.dtype()), -1);
  const Tensor total = clamp(sum(weights, {1}), 1e-9, std::nullopt);
  const Tensor mean = sum(hidden * weights, {1}) / total;
  const Tensor length = sqrt(sum(square(mean), {-1}, true));
  return mean / clamp(length, 1e-12, std::nullopt);
}

}  // namespace mica::models
