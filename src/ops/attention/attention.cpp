#include "mica/ops/attention/attention.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"

namespace mica {

const OpDef& attention_op();

namespace {

constexpr const char* kName = "scaled_dot_product_attention";

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  check<ShapeError>(q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2 && q.size(-1) == k.size(-1) &&
                        k.size(-2) == v.size(-2),
                    "{}: expected query (…, L, E), key (…, S, E) and value (…, S, V), got {}, {} "
                    "and {}",
                    kName, q.shape(), k.shape(), v.shape());
  if (!o.mask.defined()) return;
  check(!o.causal, "{}: either a mask or causal, not both", kName);
  check<DTypeError>(o.mask.dtype() == DType::boolean || o.mask.dtype() == q.dtype(),
                    "{}: the mask must be bool or {} as the query, got {}", kName, q.dtype(),
                    o.mask.dtype());
}

/// The shape without its last two axes.
Shape leading(const Tensor& x) {
  Shape shape;
  for (int i = 0; i < x.rank() - 2; ++i) shape.push_back(x.size(i));
  return shape;
}

/// x (…, R, C) as (B, H, R, C): the last of `lead` is H and the others make B; one alone is B.
Tensor as_heads(const Tensor& x, const Shape& lead) {
  Shape full = lead;
  full.push_back(x.size(-2));
  full.push_back(x.size(-1));
  const Tensor all = x.shape() == full ? x : expand(x, full);
  if (lead.rank() == 2) return all;
  const int64_t heads = lead.rank() < 2 ? 1 : lead.back();
  const int64_t batch = heads == 0 ? 0 : numel(lead) / heads;
  return reshape(all, {batch, heads, x.size(-2), x.size(-1)});
}

/// A mask with the axes (B, H, L, S), each of them whole or 1.
Tensor as_mask(const Tensor& mask, const Shape& lead) {
  Tensor m = mask;
  while (m.rank() < 2) m = unsqueeze(m, 0);
  if (lead.rank() <= 2) {
    while (m.rank() < lead.rank() + 2) m = unsqueeze(m, 0);
    check<ShapeError>(m.rank() == lead.rank() + 2,
                      "{}: the mask must broadcast to the scores' {} "
                      "axes, got {}",
                      kName, lead.rank() + 2, mask.shape());
    while (m.rank() < 4) m = unsqueeze(m, m.rank() - 2);
    return m;
  }
  return as_heads(m, lead);
}

AttentionParams params_of(const AttentionOptions& o, int64_t width) {
  AttentionParams p;
  p.scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  p.dropout = o.dropout;
  p.bottom_right = o.bottom_right;
  check(o.window >= 0, "{}: window must not be negative, got {}", kName, o.window);
  if (o.causal) p.right = 0;
  if (o.window > 0) p.left = o.window - 1;
  if (o.window > 0 && !o.causal) p.right = o.window - 1;
  return p;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& o) {
  check_arguments(query, key, value, o);
  const int64_t heads = query.rank() > 2 ? query.size(-3) : 1;
  const int64_t kv_heads = key.rank() > 2 ? key.size(-3) : 1;
  const bool grouped = o.grouped && heads != kv_heads;
  check<ShapeError>(
      !grouped || (query.rank() == 4 && key.rank() == 4 && kv_heads > 0 && heads % kv_heads == 0),
      "{}: the query's heads must be a multiple of the key's, got {} and {}", kName, query.shape(),
      key.shape());
  Tensor q, k, v;
  Shape lead;
  if (grouped) {
    q = query;
    k = key;
    v = value;
    lead = leading(query);
  } else {
    lead = broadcast_shapes(broadcast_shapes(leading(query), leading(key), kName), leading(value),
                            kName);
    q = as_heads(query, lead);
    k = as_heads(key, lead);
    v = as_heads(value, lead);
  }
  const AttentionParams params = params_of(o, query.size(-1));
  Tensor counter;
  if (o.dropout > 0) counter = rng_take(q.size(0) * q.size(1) * q.size(2) * k.size(2), q.device());
  const Tensor mask = o.mask.defined() ? as_mask(o.mask, lead) : Tensor();
  const Tensor y = dispatch(attention_op(), params, {q, k, v, mask, o.lengths, counter})[0];
  if (lead.rank() == 2) return y;
  Shape shape = lead;
  shape.push_back(query.size(-2));
  shape.push_back(value.size(-1));
  return reshape(y, shape);
}

Tensor packed_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& o,
                        int64_t kv_heads) {
  constexpr const char* kPacked = "packed_attention";
  if (kv_heads == 0) kv_heads = heads;
  const int64_t all = heads + 2 * kv_heads;
  check<ShapeError>(heads > 0 && kv_heads > 0 && qkv.rank() == 3 && qkv.size(2) % all == 0,
                    "{}: expected (B, L, {} E), got {}", kPacked, all, qkv.shape());
  check(!(o.causal && o.mask.defined()), "{}: either a mask or causal, not both", kPacked);
  const int64_t width = qkv.size(2) / all;
  AttentionParams params = params_of(o, width);
  params.heads = heads;
  params.kv_heads = kv_heads;
  const int64_t batch = qkv.size(0);
  const int64_t length = qkv.size(1);
  Tensor counter;
  if (o.dropout > 0) counter = rng_take(batch * heads * length * length, qkv.device());
  const Tensor mask = o.mask.defined() ? as_mask(o.mask, {batch, heads}) : Tensor();
  const Tensor y = dispatch(
      attention_op(), params,
      {reshape(qkv, {batch, length, all, width}), Tensor(), Tensor(), mask, o.lengths, counter})[0];
  return reshape(permute(y, {0, 2, 1, 3}), {batch, length, heads * width});
}

Functions attention_functions() {
  const auto attend = [](const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, double dropout, bool causal,
                         std::optional<double> scale, bool grouped, int64_t window,
                         bool bottom_right, const Tensor& lengths) {
    return scaled_dot_product_attention(query, key, value,
                                        {.mask = mask,
                                         .dropout = dropout,
                                         .causal = causal,
                                         .scale = scale,
                                         .grouped = grouped,
                                         .bottom_right = bottom_right,
                                         .window = window,
                                         .lengths = lengths});
  };
  const auto attend_packed = [](const Tensor& qkv, int64_t heads, const Tensor& mask,
                                double dropout, bool causal, std::optional<double> scale,
                                int64_t kv_heads, int64_t window, const Tensor& lengths) {
    return packed_attention(qkv, heads,
                            {.mask = mask,
                             .dropout = dropout,
                             .causal = causal,
                             .scale = scale,
                             .window = window,
                             .lengths = lengths},
                            kv_heads);
  };
  return {{.name = kName,
           .doc = "softmax(query key^T scale) value of query (…, L, E), key (…, S, E) and value "
                  "(…, S, V): (…, L, V). scale is 1 / sqrt(E) unless given. attn_mask broadcasts "
                  "to (…, L, S): bool, True where a query looks at a key, or numbers of query's "
                  "dtype that are added; is_causal lets query i look at keys 0 to i. A query that "
                  "looks at nothing gives zeros. dropout_p is of the weights, in evaluation too. "
                  "enable_gqa lets key and value have fewer heads (axis -3), each of which serves "
                  "several of the query's. window lets a query look at so many keys that end with "
                  "its own, on both sides unless is_causal; bottom_right counts from the last "
                  "query and key. lengths, int32 (B), hides the keys from lengths[b] on. The "
                  "scores are never stored.",
           .signatures = {{attend,
                           {"query",
                            "key",
                            "value",
                            {"attn_mask", kNone},
                            {"dropout_p", 0.0},
                            {"is_causal", false},
                            kKeywordOnly,
                            {"scale", kNone},
                            {"enable_gqa", false},
                            {"window", 0},
                            {"bottom_right", false},
                            {"lengths", kNone}}}},
           .offer = kFunctional,
           .precision = Precision::low},
          {.name = "packed_attention",
           .doc = "scaled_dot_product_attention of queries, keys and values that one layer made: "
                  "qkv (B, L, (num_heads + 2 num_kv_heads) E) holds the queries' heads, the keys' "
                  "and the values'; the result is (B, L, num_heads E). num_kv_heads is num_heads "
                  "if it is 0.",
           .signatures = {{attend_packed,
                           {"qkv",
                            "num_heads",
                            {"attn_mask", kNone},
                            {"dropout_p", 0.0},
                            {"is_causal", false},
                            kKeywordOnly,
                            {"scale", kNone},
                            {"num_kv_heads", 0},
                            {"window", 0},
                            {"lengths", kNone}}}},
           .offer = kFunctional,
           .precision = Precision::low}};
}

}  // namespace mica
