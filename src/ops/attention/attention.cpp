#include "mica/ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

/// A score so low that its weight is 0. With another score added it is still finite: a row of
/// nothing else has a softmax.
double hidden_score(DType dtype) { return dtype == DType::f16 ? -3e4 : -1e38; }

/// (L, S): true where the key is not after the query.
Tensor causal_mask(int64_t queries, int64_t keys, Device device) {
  const TensorOptions options = {.dtype = DType::i64, .device = device};
  return ge(unsqueeze(arange(queries, options), 1), arange(keys, options));
}

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

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& o) {
  check_arguments(query, key, value, o);
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const double hidden = hidden_score(query.dtype());
  Tensor scores = matmul(query * scale, swapaxes(key, -2, -1));
  Tensor seen;  // whether a query looks at any key, (…, L, 1)
  if (o.causal) {
    scores = where(causal_mask(query.size(-2), key.size(-2), query.device()), scores, hidden);
  } else if (o.mask.defined() && o.mask.dtype() == DType::boolean) {
    scores = where(o.mask, scores, hidden);
    seen = any(o.mask, {-1}, true);
  } else if (o.mask.defined()) {
    scores = scores + clamp(o.mask, {.low = hidden});
    seen = gt(max(o.mask.detach(), {-1}, true), -std::numeric_limits<double>::infinity());
  }
  Tensor weights = softmax(scores, -1);
  if (seen.defined()) weights = where(seen, weights, 0.0);
  return matmul(dropout(weights, o.dropout, o.dropout > 0), value);
}

Functions attention_functions() {
  const auto attend = [](const Tensor& query, const Tensor& key, const Tensor& value,
                         const Tensor& mask, double dropout, bool causal,
                         std::optional<double> scale) {
    return scaled_dot_product_attention(
        query, key, value, {.mask = mask, .dropout = dropout, .causal = causal, .scale = scale});
  };
  return {{.name = kName,
           .doc = "softmax(query key^T scale) value of query (…, L, E), key (…, S, E) and value "
                  "(…, S, V): (…, L, V). scale is 1 / sqrt(E) unless given. attn_mask broadcasts "
                  "to (…, L, S): bool, True where a query looks at a key, or numbers of query's "
                  "dtype that are added; is_causal lets query i look at keys 0 to i. A query that "
                  "looks at nothing gives zeros. dropout_p is of the weights, in evaluation too.",
           .signatures = {{attend,
                           {"query",
                            "key",
                            "value",
                            {"attn_mask", kNone},
                            {"dropout_p", 0.0},
                            {"is_causal", false},
                            kKeywordOnly,
                            {"scale", kNone}}}},
           .offer = kFunctional,
           .precision = Precision::low}};
}

}  // namespace mica
