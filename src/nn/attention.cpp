#include "mica/nn/attention.h"

#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/nn/linear.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::nn {
namespace {

constexpr const char* kName = "nn::MultiheadAttention";
constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Of batches with the axes (N, length, width).
struct Sizes {
  int64_t batch, heads, queries, keys;
};

Tensor masked_twice(const Tensor& a, const Tensor& b,
                    Tensor (*join)(const Tensor&, const Tensor&)) {
  return a.defined() ? join(a, b) : b;
}

/// All masks as one for scaled_dot_product_attention, (N or 1, heads or 1, L or 1, S); undefined
/// where there are none. `causal` is part of it where it has to be.
Tensor joined_mask(const SequenceMasks& m, const Sizes& s, bool with_causal, const Tensor& like) {
  Tensor blocked, added;
  const auto take = [&](const Tensor& mask) {
    if (mask.dtype() == DType::boolean) {
      blocked = masked_twice(blocked, mask, logical_or);
    } else {
      added = masked_twice(added, cast(mask, like.dtype()), add);
    }
  };
  if (m.mask.defined()) {
    const Shape& shape = m.mask.shape();
    const bool whole = shape == Shape{s.batch * s.heads, s.queries, s.keys};
    check<ShapeError>(whole || shape == Shape{s.queries, s.keys},
                      "{}: the mask must be ({}, {}) or ({}, {}, {}), got {}", kName, s.queries,
                      s.keys, s.batch * s.heads, s.queries, s.keys, shape);
    take(whole ? reshape(m.mask, {s.batch, s.heads, s.queries, s.keys})
               : reshape(m.mask, {1, 1, s.queries, s.keys}));
  }
  if (m.padding.defined()) {
    const Shape& shape = m.padding.shape();
    const bool fits = shape == Shape{s.batch, s.keys} || (s.batch == 1 && shape == Shape{s.keys});
    check<ShapeError>(fits, "{}: the mask of padding must be ({}, {}), got {}", kName, s.batch,
                      s.keys, shape);
    take(reshape(m.padding, {s.batch, 1, 1, s.keys}));
  }
  if (m.causal && (with_causal || blocked.defined() || added.defined())) {
    const TensorOptions where_it_is = {DType::i64, like.device()};
    take(gt(reshape(arange(s.keys, where_it_is), {1, 1, 1, s.keys}),
            reshape(arange(s.queries, where_it_is), {1, 1, s.queries, 1})));
  }
  if (!added.defined()) return blocked.defined() ? logical_not(blocked) : Tensor();
  return blocked.defined() ? where(blocked, kNever, added) : added;
}

/// The weights softmax gives, (N, heads, L, S): zeros for a query that looks at no key.
Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  Tensor scores = matmul(q * scale, transpose(k, -2, -1));
  if (!mask.defined()) return softmax(scores, -1);
  const bool boolean = mask.dtype() == DType::boolean;
  const Tensor seen = boolean ? mask : gt(mask, kNever);
  if (!boolean) scores = scores + mask;
  // Finite, so that no line is without a number; it is nothing beside any score.
  const double least = scores.dtype() == DType::f16 ? -6e4 : -1e30;
  return where(seen, softmax(where(seen, scores, least), -1), 0);
}

}  // namespace

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& o) : options(o) {
  check(o.width >= 1 && o.heads >= 1 && o.width % o.heads == 0,
        "{}: the width must be a multiple of the heads, got {} and {}", kName, o.width, o.heads);
  check(o.dropout >= 0 && o.dropout < 1, "{}: dropout must be in [0, 1), got {}", kName, o.dropout);
  const Initializer xavier = [](const Tensor& t) { init::xavier_uniform_(t); };
  const int64_t keys = o.key_width ? o.key_width : o.width;
  const int64_t values = o.value_width ? o.value_width : o.width;
  check(keys >= 1 && values >= 1, "{}: widths of keys and values must be at least 1, got {} and {}",
        kName, keys, values);
  if (keys == o.width && values == o.width) {
    in_proj_weight = parameter("in_proj_weight", {3 * o.width, o.width}, xavier);
  } else {
    q_proj_weight = parameter("q_proj_weight", {o.width, o.width}, xavier);
    k_proj_weight = parameter("k_proj_weight", {o.width, keys}, xavier);
    v_proj_weight = parameter("v_proj_weight", {o.width, values}, xavier);
  }
  if (o.bias) in_proj_bias = parameter("in_proj_bias", {3 * o.width}, init::constant(0));
  const Linear out({.in = o.width, .out = o.width, .bias = o.bias});
  if (o.bias) init::zeros_(out->bias);
  register_module("out_proj", out);
}

std::pair<Tensor, Tensor> MultiheadAttentionImpl::projection(int64_t i) const {
  const int64_t width = options.width;
  const Tensor& own = i == 0 ? q_proj_weight : i == 1 ? k_proj_weight : v_proj_weight;
  return {in_proj_weight.defined() ? narrow(in_proj_weight, 0, i * width, width) : own,
          in_proj_bias.defined() ? narrow(in_proj_bias, 0, i * width, width) : Tensor()};
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(
    const Tensor& query, const Tensor& key, const Tensor& value,
    const std::optional<Tensor>& padding, const std::optional<Tensor>& mask) const {
  return attend(query, key, value,
                {.mask = mask.value_or(Tensor()), .padding = padding.value_or(Tensor())},
                Weights::mean);
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::attend(const Tensor& query, const Tensor& key,
                                                          const Tensor& value,
                                                          const SequenceMasks& masks,
                                                          Weights wanted) const {
  const bool single = query.rank() == 2;
  check<ShapeError>(
      (single || query.rank() == 3) && key.rank() == query.rank() && value.rank() == query.rank(),
      "{}: expected query, key and value of two axes or of three, got {}, {} and {}", kName,
      query.shape(), key.shape(), value.shape());
  const auto batch_first = [&](const Tensor& t) {
    return single ? unsqueeze(t, 0) : options.batch_first ? t : transpose(t, 0, 1);
  };
  const bool same_keys = key.impl() == query.impl();
  const bool same_values = value.impl() == key.impl();
  const Tensor x = batch_first(query);
  const Tensor keys = same_keys ? x : batch_first(key);
  const Tensor values = same_values ? keys : batch_first(value);
  check<ShapeError>(
      keys.size(0) == x.size(0) && values.size(0) == x.size(0) && values.size(1) == keys.size(1),
      "{}: query, key and value differ in their batch, or key and value in their length: {}, {} "
      "and {}",
      kName, query.shape(), key.shape(), value.shape());
  const Sizes s = {x.size(0), options.heads, x.size(1), keys.size(1)};
  const bool keeps = wanted != Weights::none;
  const double dropped = training() ? options.dropout : 0;
  const auto out = [&](const Tensor& y) {
    const Tensor given = children()[0].second(y);
    return single ? squeeze(given, {0}) : options.batch_first ? given : transpose(given, 0, 1);
  };
  const auto with_mask = [&](const Tensor& like) {  // autocast may have chosen its dtype
    const Tensor mask = joined_mask(masks, s, keeps, like);
    return AttentionOptions{
        .mask = mask, .dropout = dropped, .causal = masks.causal && !mask.defined()};
  };
  const bool together = same_keys && same_values && in_proj_weight.defined();
  const Tensor all = together ? linear(x, in_proj_weight, in_proj_bias) : Tensor();
  if (together && !keeps)
    return {out(packed_attention(all, options.heads, with_mask(all))), Tensor()};
  const auto heads = [&](int64_t i, const Tensor& t) {
    Tensor made;
    if (together) {
      made = narrow(all, 2, i * options.width, options.width);
    } else {
      const auto [weight, bias] = projection(i);
      made = linear(t, weight, bias);
    }
    const int64_t width = options.width / options.heads;
    return transpose(reshape(made, {s.batch, t.size(1), options.heads, width}), 1, 2);
  };
  const Tensor q = heads(0, x), k = heads(1, keys), v = heads(2, values);
  const auto merged = [&](const Tensor& y) {
    return reshape(transpose(y, 1, 2), {s.batch, s.queries, options.width});
  };
  const AttentionOptions how = with_mask(q);
  if (!keeps) return {out(merged(scaled_dot_product_attention(q, k, v, how))), Tensor()};
  Tensor weights = dropout(weights_of(q, k, how.mask), dropped, dropped > 0);
  const Tensor y = out(merged(matmul(weights, v)));
  if (wanted == Weights::mean) weights = mean(weights, {1});
  return {y, single ? squeeze(weights, {0}) : weights};
}

std::string MultiheadAttentionImpl::describe() const {
  return nn::describe("MultiheadAttention", options);
}
MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& options)
    : Handle(options) {}

}  // namespace mica::nn
