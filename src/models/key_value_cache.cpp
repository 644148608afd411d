#include "mica/models/key_value_cache.h"

#include "mica/graph/compile.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/view/view.h"

namespace mica::models {

KeyValueCache make_cache(const CacheShape& s, int64_t batch, const Tensor& like) {
  const Shape shape = {batch, s.positions, s.heads, s.width};
  KeyValueCache cache;
  for (int64_t i = 0; i < s.layers; ++i) {
    cache.keys.push_back(zeros(shape, {like.dtype(), like.device()}));
    cache.values.push_back(zeros(shape, {like.dtype(), like.device()}));
  }
  cache.length = zeros({1}, {DType::i64, like.device()});
  return cache;
}

Tensor attend_next(const Tensor& query, const Tensor& key, const Tensor& value,
                   const KeyValueCache& cache, size_t layer) {
  const Tensor& keys = cache.keys[layer];
  const Tensor& values = cache.values[layer];
  const int64_t batch = query.size(0);
  copy_(keys, index_copy(keys, 1, cache.length, key));
  copy_(values, index_copy(values, 1, cache.length, value));
  const Tensor lengths = expand(cast(cache.length + 1, DType::i32), {batch});
  const Tensor y = scaled_dot_product_attention(transpose(query, 1, 2), transpose(keys, 1, 2),
                                                transpose(values, 1, 2),
                                                {.grouped = true, .lengths = contiguous(lengths)});
  return reshape(transpose(y, 1, 2), {batch, 1, query.size(2) * values.size(3)});
}

Tensor generate_tokens(const std::function<Tensor(const Tensor&)>& next, const Tensor& tokens,
                       int64_t count) {
  auto compiled = compile([&](const Tensor& token) { return next(token); });
  Tensors all = {cast(tokens, DType::i64)};
  Tensor last;
  const int64_t given = tokens.size(1);
  for (int64_t i = 0; i + 1 < given + count; ++i) {
    last = compiled(i < given ? select(all[0], 1, i) : last);
    if (i + 1 >= given) all.push_back(unsqueeze(last, 1));
  }
  return concat(all, 1);
}

}  // namespace mica::models
