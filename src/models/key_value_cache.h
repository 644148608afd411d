#pragma once

#include <functional>
#include <vector>

#include "mica/core/tensor.h"

// What generation keeps of the tokens so far.
namespace mica::models {

/// Keys and values of each layer, in memory for all positions.
struct KeyValueCache {
  std::vector<Tensor> keys, values;  ///< (B, positions, heads, E) each
  Tensor length;                     ///< tokens so far, i64 [1]
};

struct CacheShape {
  int64_t layers = 0;
  int64_t positions = 0;
  int64_t heads = 0;  ///< of keys
  int64_t width = 0;  ///< of a head
};
/// An empty one, zeros with the dtype and on the device of `like`.
KeyValueCache make_cache(const CacheShape& shape, int64_t batch, const Tensor& like);

/// Attention of the next token's query (B, 1, heads, E) to all so far and itself, whose key and
/// value (B, 1, kv_heads, E) are written to the cache: (B, 1, heads · E). Nothing of it depends on
/// numbers that the host knows: compiled, each step is one plan.
Tensor attend_next(const Tensor& query, const Tensor& key, const Tensor& value,
                   const KeyValueCache& cache, size_t layer);

/// `tokens` (B, L) and `count` more, each what `next` gives for the one before, i64 (B): i64
/// (B, L + count). `next` is compiled, and called once for each token but the last.
Tensor generate_tokens(const std::function<Tensor(const Tensor&)>& next, const Tensor& tokens,
                       int64_t count);

}  // namespace mica::models
