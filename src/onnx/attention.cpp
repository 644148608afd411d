// Attention and rotary embeddings.
#include "mica/ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/einsum/einsum.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/repeat/repeat.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// (B, T, heads D) as (B, heads, T, D).
Tensor by_head(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.shape()[0], x.shape()[1], heads, -1}), 1, 2);
}
Tensor joined(const Tensor& x) {
  const Tensor y = transpose(x, 1, 2);
  return reshape(y, {y.shape()[0], y.shape()[1], -1});
}

/// 0 where it holds, else minus infinity.
Tensor bias_of(const Tensor& allowed, DType dtype) {
  return cast(
      where(allowed, 0.0, full(allowed.shape(), -kInfinity, {DType::f32, allowed.device()})),
      dtype);
}

/// What is added to the scores, which broadcasts with (B, heads, queries, keys); undefined where
/// nothing is.
Tensor score_bias(const Call& c, DType dtype, int64_t queries, int64_t keys, int64_t past) {
  Tensor bias = c.maybe(3);
  if (bias.defined()) {
    if (const int64_t missing = keys - bias.shape().back(); missing > 0) {
      PadParams more;
      more.before = more.after = Dims::filled(bias.rank(), 0);
      more.after[bias.rank() - 1] = missing;
      if (bias.dtype() == DType::boolean) {
        more.value = false;
      } else {
        more.value = -kInfinity;
      }
      bias = pad(bias, more);
    }
    if (bias.dtype() == DType::boolean) bias = bias_of(bias, dtype);
  }
  const auto with = [&](const Tensor& more) { bias = bias.defined() ? add(bias, more) : more; };
  const TensorOptions whole{DType::i64, c.device()};
  const Tensor lengths = c.has(6) ? cast(c[6], DType::i64) : Tensor();
  const int64_t left = c.integer("left_window_size", -1);
  const int64_t right = c.integer("right_window_size", -1);
  const bool causal = c.integer("is_causal", 0) != 0;
  const Tensor key = arange(keys, whole);
  if (causal || left >= 0 || right >= 0) {
    // Where each query stands among the keys: after what was there before.
    Tensor position = unsqueeze(arange(queries, whole), 1);
    if (lengths.defined() && !c.has(4)) {
      position = add(position, reshape(sub(lengths, queries), {-1, 1, 1, 1}));
    } else {
      position = add(position, past);
    }
    if (causal) with(bias_of(le(key, position), dtype));
    if (left >= 0) with(bias_of(le(sub(position, key), left), dtype));
    if (right >= 0) with(bias_of(le(sub(key, position), right), dtype));
  }
  if (lengths.defined()) with(bias_of(lt(key, reshape(lengths, {-1, 1, 1, 1})), dtype));
  return bias;
}

Results attention_of(const Call& c) {
  Tensor q = c[0];
  Tensor k = c[1];
  Tensor v = c[2];
  const bool packed = q.rank() == 3;
  if (packed) {
    q = by_head(q, c.integer("q_num_heads"));
    k = by_head(k, c.integer("kv_num_heads"));
    v = by_head(v, c.integer("kv_num_heads"));
  }
  c.check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "query {}, key {} and value {}",
          q.shape(), k.shape(), v.shape());
  int64_t past = 0;
  if (c.has(4)) {
    past = c[4].shape()[2];
    k = concat({c[4], k}, 2);
    v = concat({c[5], v}, 2);
  }
  const Tensor present_key = k;
  const Tensor present_value = v;
  const DType dtype = q.dtype();
  const double scale =
      c.has("scale") ? c.number("scale", 0) : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  const double cap = c.number("softcap", 0);
  const Tensor bias = score_bias(c, dtype, q.shape()[2], k.shape()[2], past);
  if (!bias.defined() && cap == 0 && !c.wants(3)) {
    AttentionOptions options;
    options.scale = scale;
    options.grouped = q.shape()[1] != k.shape()[1];
    const Tensor y = scaled_dot_product_attention(q, k, v, options);
    return {packed ? joined(y) : y, present_key, present_value};
  }
  if (q.shape()[1] != k.shape()[1]) {
    const int64_t each = q.shape()[1] / k.shape()[1];
    k = repeat_interleave(k, each, 1);
    v = repeat_interleave(v, each, 1);
  }
  const double root = std::sqrt(scale);
  const Tensor raw = matmul(mul(q, root), transpose(mul(k, root), 2, 3));
  const Tensor capped = cap > 0 ? mul(tanh(div(raw, cap)), cap) : raw;
  const Tensor scores = bias.defined() ? add(capped, bias) : capped;
  const DType precise = c.dtype("softmax_precision", dtype);
  Tensor weights = softmax(cast(scores, precise), 3);
  if (bias.defined()) {  // a query that may look at nothing gets nothing
    const Tensor nothing = eq(max(bias, {-1}, true), -kInfinity);
    weights = where(nothing, 0.0, weights);
  }
  weights = cast(weights, dtype);
  const Tensor y = matmul(weights, v);
  const Tensor shown[] = {raw, capped, scores, weights};
  const int64_t mode = c.integer("qk_matmul_output_mode", 0);
  c.check(mode >= 0 && mode < 4, "qk_matmul_output_mode of {}", mode);
  return {packed ? joined(y) : y, present_key, present_value, shown[mode]};
}

Results rotary_embedding(const Call& c) {
  const Tensor input = c[0];
  const bool packed = input.rank() == 3;
  const Tensor x = packed ? by_head(input, c.integer("num_heads")) : input;  // (B, heads, T, D)
  int64_t rotated = c.integer("rotary_embedding_dim", 0);
  const int64_t size = x.shape()[3];
  if (rotated == 0) rotated = size;
  Tensor cosine = c[1];
  Tensor sine = c[2];
  if (c.has(3)) {  // by position
    const Tensor at = cast(c[3], DType::i64);
    cosine = embedding(at, cosine);
    sine = embedding(at, sine);
  }
  cosine = unsqueeze(cosine, 1);
  sine = unsqueeze(sine, 1);
  const bool interleaved = c.integer("interleaved", 0) != 0;
  const Tensor part = slice(x, 3, 0, rotated);
  const Tensor a = interleaved ? slice(part, 3, 0, rotated, 2) : slice(part, 3, 0, rotated / 2);
  const Tensor b =
      interleaved ? slice(part, 3, 1, rotated, 2) : slice(part, 3, rotated / 2, rotated);
  const Tensor real = sub(mul(cosine, a), mul(sine, b));
  const Tensor imaginary = add(mul(sine, a), mul(cosine, b));
  Tensor y = interleaved ? reshape(stack({real, imaginary}, 4), part.shape())
                         : concat({real, imaginary}, 3);
  if (rotated < size) y = concat({y, slice(x, 3, rotated, size)}, 3);
  return packed ? joined(y) : y;
}

/// Attention as a recurrence over a state (B, heads, d_k, d_v).
Results linear_attention(const Call& c) {
  const int64_t q_heads = c.integer("q_num_heads");
  const int64_t heads = c.integer("kv_num_heads");
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated");
  const bool delta = rule.ends_with("delta");
  const DType dtype = c[0].dtype();
  const auto unpacked = [](const Tensor& t, int64_t n) { return cast(by_head(t, n), DType::f32); };
  const Tensor q = unpacked(c[0], q_heads);
  const Tensor k = unpacked(c[1], heads);
  const Tensor v = unpacked(c[2], heads);
  const int64_t steps = q.shape()[2];
  const int64_t d_k = q.shape()[3];
  const DType state_dtype = c.has(3) ? c[3].dtype() : dtype;
  Tensor state = c.has(3)
                     ? cast(c[3], DType::f32)
                     : zeros({q.shape()[0], heads, d_k, v.shape()[3]}, {DType::f32, c.device()});
  const Tensor decay = gated ? exp(unpacked(c[4], heads)) : Tensor();  // (B, heads, T, 1 or d_k)
  const Tensor beta = delta ? unpacked(c[5], c[5].shape().back()) : Tensor();
  double scale = c.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(d_k));
  Tensors outputs;
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor key = select(k, 2, t);
    Tensor value = select(v, 2, t);
    if (gated) state = mul(state, unsqueeze(select(decay, 2, t), -1));
    if (delta) {
      const Tensor found = squeeze(matmul(unsqueeze(key, 2), state), {2});
      value = mul(select(beta, 2, t), sub(value, found));
    }
    state = add(state, mul(unsqueeze(key, -1), unsqueeze(value, -2)));
    const Tensor read = q_heads == heads ? state : repeat_interleave(state, q_heads / heads, 1);
    outputs.push_back(mul(matmul(unsqueeze(select(q, 2, t), 2), read), scale));
  }
  return {cast(joined(concat(outputs, 2)), dtype), cast(state, state_dtype)};
}

/// Attention whose scores and weights pass through graphs of the node.
Results flex_attention(const Call& c) {
  const Tensor q = c[0];
  Tensor k = c[1];
  Tensor v = c[2];
  c.check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "query {}, key {} and value {}",
          q.shape(), k.shape(), v.shape());
  const double scale =
      c.has("scale") ? c.number("scale", 0) : 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  if (q.shape()[1] != k.shape()[1]) {
    const int64_t each = q.shape()[1] / k.shape()[1];
    k = repeat_interleave(k, each, 1);
    v = repeat_interleave(v, each, 1);
  }
  const double root = std::sqrt(scale);
  const DType wide = size_of(q.dtype()) < 4 ? DType::f32 : q.dtype();
  const DType precise = c.dtype("softmax_precision", wide);
  const auto modified = [&](const char* graph, const Tensor& t) {
    if (!c.has_graph(graph)) return t;
    return cast(c.run(graph, {{t, false}}).at(0).value.tensor(), precise);
  };
  const Tensor scores = cast(matmul(mul(q, root), transpose(mul(k, root), 2, 3)), precise);
  const Tensor weights = modified("prob_mod", softmax(modified("score_mod", scores), 3));
  return cast(matmul(weights, cast(v, precise)), v.dtype());
}

}  // namespace

Operators attention_operators() {
  return {
      {"Attention", attention_of},
      {"RotaryEmbedding", rotary_embedding},
      {"LinearAttention", linear_attention},
  };
}

Operators preview_operators() { return {{"FlexAttention", flex_attention}}; }

}  // namespace mica::onnx
